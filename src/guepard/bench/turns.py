"""Two targets measured in turns, and which of them is faster: `--compare`.

Turns go ABBA, so that what drifts meanwhile (heat, caches, neighbours) falls on both alike. Every turn has the same
load, in an open loop at a rate that both can keep: a closed loop would ask the slower one less.
"""

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from guepard.measure.comparison import compare, interleave
from guepard.measure.figures import percentile_text
from guepard.measure.results import Comparison, Run
from guepard.measure.validity import blames_generator, excused

Turn = Callable[[int, int], Run]
"""Measures target 0 (A) or 1 (B), for the n-th time."""

_USUAL_PERCENT = 99.0
_KEPT_SHARE = 0.97
_MADE_GOOD = frozenset(("unsteady", "too-few-samples"))
"""Findings of one turn that the other turns make good: how far turns differ is what the comparison goes by."""


class Turns(NamedTuple):
    """`runs` are those that count, in the order in which they were made."""

    comparisons: tuple[Comparison, ...]
    runs: tuple[Run, ...]


def take_turns(measure: Turn, *, blocks: int, slo_percent: float | None) -> Turns:
    """`blocks` turns of each side, and what they say of the goal's percentile, p50, p99, and throughput where it tells.

    A turn that is void for the load generator's sake is taken once more. Findings that only say that a turn is short
    or uneven become warnings.
    """
    sides: tuple[list[Run], list[Run]] = ([], [])
    order = []
    for name in interleave(blocks):
        side = "AB".index(name)
        run = _turn(measure, side, len(sides[side]))
        sides[side].append(run)
        order.append(run)
    percents = [50.0, _USUAL_PERCENT] if slo_percent is None else [slo_percent, 50.0]
    found = [_latency(each, *sides) for each in dict.fromkeys(percents)]
    if _tells_throughput(sides):
        a, b = ([run.throughput.value for run in side] for side in sides)
        found.append(compare("throughput", a, b, better="higher"))
    return Turns(tuple(found), tuple(order))


def _turn(measure: Turn, side: int, index: int) -> Run:
    run = measure(side, index)
    if blames_generator(run):
        run = measure(side, index)
    return excused(run, _MADE_GOOD)


def _latency(percent: float, a: list[Run], b: list[Run]) -> Comparison:
    found = [[run.latency.at(percent) for run in side] for side in (a, b)]
    first, second = ([each.value_ms if each else float("nan") for each in side] for side in found)
    return compare(percentile_text(percent), first, second)


def _tells_throughput(sides: tuple[list[Run], list[Run]]) -> bool:
    """In an open loop that both keep, throughput is what was asked for, whatever the target."""
    if sides[0][0].load.loop == "closed":
        return True
    shares = [[run.throughput.value / run.offered_rate for run in side if run.offered_rate] for side in sides]
    return any(side and median(side) < _KEPT_SHARE for side in shares)
