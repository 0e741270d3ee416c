"""Does a model gain from executions that take all CPUs, and up to how many rows?

A lone request to a heavy model leaves all CPUs but one idle. A wide execution uses them all for it. Under load it is
the other way round: as many executions side by side, each on one CPU, get more done. So there is a choice for each
batch, which the batcher makes (`wide_rows`); here it is found out whether there is anything to choose.
"""

import logging
from collections.abc import Collection
from time import perf_counter_ns
from typing import NamedTuple

from guepard.backends.base import Executor, LoadedModel
from guepard.core.model_config import Execution, InstanceGroup, ModelDescription
from guepard.engine.cpu_times import cpu_times, thread_ids
from guepard.engine.resources import Resources
from guepard.engine.warmup import Warmup, run_sample, same

log = logging.getLogger(__name__)

HEAVY_NS = 1_000_000
"""One row must take that long on an instance: below, the hand-over between threads eats what they gain."""

_PAYS_FROM = 0.9  # of the narrow time
_TRIED_ROWS = (1, 4, 16)
_RUNS = 4  # of each width
_TRIES = 3  # with one row: what hides a gain may do so for a while only
_CALM = 0.1  # of a run, for which any of its threads may have waited for a CPU
_ENOUGH_NS = 400_000_000


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
    if resources.profile != "standard" or resources.cpus < 2 or instances < 2:
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

    The choice is for good, and other work may have the CPUs just now. How long a run takes then says little; how long
    the busiest of its threads had a CPU for it says what it would take without that work, and is compared instead.
    """
    limit = max(1, description.max_batch_size)
    if not same_answers(narrow, wide, description, free_size):
        return 0, "its answers differ"
    paying, reason, spent = 0, "", 0
    for rows in [rows for rows in _TRIED_ROWS if rows <= limit]:
        trial = _Trial(narrow, wide, helpers)
        for _ in range(_TRIES if rows == 1 else 1):
            trial.run(description, rows, free_size)
            if trial.pays:
                break
        spent += trial.spent
        reason = reason or trial.figures
        if not trial.pays:
            return paying, reason
        paying = rows
        if spent + 2 * _RUNS * trial.turn > _ENOUGH_NS:
            break
    return limit, reason


class _Trial:
    """Runs of both widths with one number of rows, and the least that each of them took. Units: nanoseconds."""

    def __init__(self, narrow: Executor, wide: Executor, helpers: Collection[int]) -> None:
        self._narrow = narrow
        self._wide = wide
        self._helpers = helpers
        self._wall: dict[Executor, int] = {}
        self._busiest: dict[Executor, int] = {}  # what the thread that computed longest had of a CPU
        self._calm: set[Executor] = set()  # those of which a run had the CPUs that it wanted
        self.spent = 0

    def run(self, description: ModelDescription, rows: int, free_size: int) -> None:
        for executor in (self._narrow, self._wide) * _RUNS:
            before = cpu_times(self._helpers)
            started = perf_counter_ns()
            run_sample(executor, description, rows, free_size)
            took = perf_counter_ns() - started
            pairs = list(zip(before, cpu_times(self._helpers), strict=True))
            busiest = max(after.had - before.had for before, after in pairs)
            waited = max(after.waited - before.waited for before, after in pairs)
            self._wall[executor] = min(self._wall.get(executor, took), took)
            self._busiest[executor] = min(self._busiest.get(executor, busiest), busiest)
            if waited <= took * _CALM:
                self._calm.add(executor)
            self.spent += took

    @property
    def pays(self) -> bool:
        times = self._wall if self._is_calm else self._busiest
        return times[self._wide] <= times[self._narrow] * _PAYS_FROM

    @property
    def turn(self) -> int:
        """How long one run of each takes."""
        return self._wall[self._wide] + self._wall[self._narrow]

    @property
    def figures(self) -> str:
        wall = f"one row takes {_ms(self._wall[self._wide])} wide and {_ms(self._wall[self._narrow])} narrow"
        if self._is_calm:
            return wall
        busiest = f"{_ms(self._busiest[self._wide])} and {_ms(self._busiest[self._narrow])}"
        return f"{wall} while other work has the CPUs, which its busiest thread had for {busiest}"

    @property
    def _is_calm(self) -> bool:
        return len(self._calm) == 2


def same_answers(narrow: Executor, wide: Executor, description: ModelDescription, free_size: int) -> bool:
    """Whether both say the same of a sample. It is also the first run of both, which takes longer than the others."""
    answers = [run_sample(executor, description, 1, free_size) for executor in (narrow, wide)]
    return all(same(left, right) for left, right in zip(*answers, strict=True))


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / 1e6:.3g} ms"
