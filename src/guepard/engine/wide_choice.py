"""Does a model gain from executions that take all CPUs, and up to how many rows?

A lone request to a heavy model leaves all CPUs but one idle. A wide execution uses them all for it. Under load it is
the other way round: as many executions side by side, each on one CPU, get more done. So there is a choice for each
batch, which the batcher makes (`wide_rows`); here it is found out whether there is anything to choose.
"""

import logging
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from guepard.backends.base import Executor, LoadedModel
from guepard.core.model_config import Execution, InstanceGroup, ModelDescription
from guepard.engine.cpu_times import thread_ids
from guepard.engine.resources import Resources
from guepard.engine.timed_turns import TimedTurns
from guepard.engine.warmup import Warmup, run_sample, same

log = logging.getLogger(__name__)

HEAVY_NS = 1_000_000
"""One row must take that long on an instance: below, the hand-over between threads eats what they gain."""

_PAYS_FROM = 0.9  # of the narrow time
_TRIED_ROWS = (1, 4, 16)
_RUNS, _FEWEST = 4, 2  # of each width
_TRIES = 3  # with one row: what hides a gain may do so for a while only
_ENOUGH_NS = 400_000_000
_LONG_NS = 4 * _ENOUGH_NS  # runs that took so long together have shown what there is to see


class WideChoice(NamedTuple):
    """`executor` takes all CPUs for batches of at most `max_rows`. None where that gains nothing; `reason` says why.

    `narrow` is an executor that takes the place of the one that was tried first: they may share weights.
    """

    executor: Executor | None
    max_rows: int
    reason: str
    narrow: Executor | None = None


def choose_wide(
    group: InstanceGroup,
    resources: Resources,
    model: LoadedModel,
    description: ModelDescription,
    execution: Execution,
    instances: int,
    warmup: Warmup,
) -> WideChoice:
    """`warmup` is that of a narrow executor. Cost: most of a second for a heavy model, and its weights made ready."""
    if execution != "thread" or not description.releases_gil or description.decoupled or warmup.timing is None:
        return WideChoice(None, 0, "")
    if description.gpus or resources.profile != "standard" or resources.cpus < 2 or instances < 2:
        return WideChoice(None, 0, "")
    if group.wide == "never":
        return WideChoice(None, 0, "instance_group.wide is never")
    if warmup.timing.one < HEAVY_NS:
        return WideChoice(None, 0, f"one row takes {_ms(warmup.timing.one)}, too little to be shared out")
    try:
        others = thread_ids()
        wide = model.wide_executor()
        if wide is None:
            return WideChoice(None, 0, "its weights would be in memory twice")
        narrow = model.executor()
        helpers = thread_ids() - others
        max_rows, reason = measure_widths(narrow, wide, description, warmup.free_size, helpers)
    except Exception:  # what serves without it must not fail for it
        log.exception("a model's wide executions could not be tried")
        return WideChoice(None, 0, "the trial failed")
    if not max_rows:
        wide.close()
        return WideChoice(None, 0, reason, narrow)
    return WideChoice(wide, max_rows, reason, narrow)


def measure_widths(
    narrow: Executor, wide: Executor, description: ModelDescription, free_size: int, helpers: Collection[int] = ()
) -> tuple[int, str]:
    """The largest batch for which the wide executor is more than a tenth faster, and the figures for one row.

    Both run in turns. What would take too long to try is taken to pay, as it did for fewer rows: more rows are only
    easier to share out. `helpers`: the threads that compute with the calling one.
    """
    limit = max(1, description.max_batch_size)
    if not same_answers(narrow, wide, description, free_size):
        return 0, "its answers differ"
    paying, reason, spent = 0, "", 0
    for rows in [rows for rows in _TRIED_ROWS if rows <= limit]:
        turns = TimedTurns(narrow, wide, helpers)
        execute = partial(run_sample, description=description, rows=rows, free_size=free_size)
        for _ in range(_TRIES if rows == 1 else 1):
            for turn in range(_RUNS):
                if turn >= _FEWEST and turns.spent >= _LONG_NS:
                    break
                turns.run(execute, 1)
            if _pays(turns, narrow, wide) or turns.spent >= _LONG_NS:
                break
        spent += turns.spent
        reason = reason or _figures(turns, narrow, wide)
        if not _pays(turns, narrow, wide):
            return paying, reason
        paying = rows
        if spent + 2 * _RUNS * turns.turn > _ENOUGH_NS:
            break
    return limit, reason


def _pays(turns: TimedTurns, narrow: Executor, wide: Executor) -> bool:
    return turns.times[wide] <= turns.times[narrow] * _PAYS_FROM


def _figures(turns: TimedTurns, narrow: Executor, wide: Executor) -> str:
    wall = f"one row takes {_ms(turns.wall[wide])} wide and {_ms(turns.wall[narrow])} narrow"
    if turns.is_calm:
        return wall
    busiest = f"{_ms(turns.busiest[wide])} and {_ms(turns.busiest[narrow])}"
    return f"{wall} while other work has the CPUs, which its busiest thread had for {busiest}"


def same_answers(narrow: Executor, wide: Executor, description: ModelDescription, free_size: int) -> bool:
    """Whether both say the same of a sample. It is also the first run of both, which takes longer than the others."""
    answers = [run_sample(executor, description, 1, free_size) for executor in (narrow, wide)]
    return all(same(left, right) for left, right in zip(*answers, strict=True))


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / 1e6:.3g} ms"
