"""Cases timed in turns: each in many short batches, each batch between two looks at the yardstick.

A slow second of the machine meets a few batches of every case instead of all batches of one, and the medians do not
see it.
"""

import gc
from collections.abc import Mapping
from statistics import median, quantiles
from time import process_time_ns
from typing import NamedTuple

from benchmarks.micro.timing import calibration
from benchmarks.micro.timing.case import Case

BATCH_NS = 1_000_000
WARM_UP_NS = 3_000_000
PRELUDE = 8
"""An untimed part of a batch, one of so many, before the timed one: the caches hold what the last case needed."""


class Time(NamedTuple):
    """Of one call. `ratio` is to the yardstick; half of all rounds lie between `low` and `high`."""

    ns: float
    ratio: float
    low: float
    high: float


def time_cases(cases: Mapping[str, Case], rounds: int) -> dict[str, Time]:
    """CPU time of this process, all its threads, per call."""
    repeats = {name: _repeats(case) for name, case in cases.items()}
    gc.collect()
    gc.freeze()  # as the server does: collections then look at what the cases make, not at what was there
    times: dict[str, list[float]] = {name: [] for name in cases}
    ratios: dict[str, list[float]] = {name: [] for name in cases}
    names = list(cases)
    for _ in range(rounds):
        names.reverse()  # so that no case always follows the same one
        for name in names:
            _batch(cases[name], -(-repeats[name] // PRELUDE))
            before = calibration.nanoseconds()
            spent = _batch(cases[name], repeats[name])
            after = calibration.nanoseconds()
            times[name].append(spent)
            ratios[name].append(spent / (before + after) * 2)
    return {name: Time(median(times[name]), median(ratios[name]), *_quartiles(ratios[name])) for name in cases}


def _batch(case: Case, repeats: int) -> float:
    """Nanoseconds per call."""
    work = case.work
    start = process_time_ns()
    for _ in range(repeats):
        work()
    return (process_time_ns() - start) / repeats / case.calls


def _repeats(case: Case) -> int:
    """How often the work is to be done in a batch, found out when it has warmed up.

    First calls import, allocate and fill memos: none of what they took says how long the next will take.
    """
    spent, repeats = 0.0, 1
    while spent < WARM_UP_NS:
        spent += max(1.0, _batch(case, 1) * case.calls)
    while _batch(case, repeats) * repeats * case.calls < BATCH_NS:
        repeats *= 2
    return repeats


def _quartiles(ratios: list[float]) -> tuple[float, float]:
    if len(ratios) < 2:
        return ratios[0], ratios[0]
    low, _, high = quantiles(ratios, n=4)
    return low, high
