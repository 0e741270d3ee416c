"""Whether B is faster than A, from blocks of load that took turns."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guepard.measure.distributions import student_quantile
from guepard.measure.figures import change_text, share_text
from guepard.measure.results import Comparison, Estimate

Floats = NDArray[np.float64]

LEAST_BLOCKS = 5
# Blocks that follow each other are more alike than those that do not. Intervals for 97 % keep the 95 % that they say.
_CONFIDENCE = 0.97
_POWER = 0.8
# One pair in so many is left out at either end, so that a block that something disturbed does not decide.
_PAIRS_PER_STRAY = 8
# Histograms know values to a thousandth; a lesser difference is none.
_RESOLUTION = 1e-3


class _Reach(NamedTuple):
    """Of logarithms of ratios: their middle, the half width of its interval, and the least that would be seen."""

    middle: float
    half_width: float
    detectable: float


def interleave(blocks: int) -> list[Literal["A", "B"]]:
    """The order of so many blocks of each: A B B A A B B A …, so that a slow change falls on both alike.

    The n-th block of A and the n-th of B are neighbours.
    """
    return [name for pair in range(blocks) for name in (("A", "B") if pair % 2 == 0 else ("B", "A"))]


def compare(
    metric: str, a: Sequence[float], b: Sequence[float], better: Literal["lower", "higher"] = "lower"
) -> Comparison:
    """The verdict on B by one metric, from its values in interleaved blocks, n-th with n-th.

    Shapes: a and b [blocks], values above zero, NaN where a block has none.

    The difference is that of the logarithms of neighbours, so that whatever changed for both cancels. Its interval is
    Student's t, from 8 blocks on of the trimmed mean: of eight pairs, the largest and the least difference only count
    as the next ones do. B is faster or slower if the interval does not hold zero. `minimum_detectable` is the
    difference that blocks as noisy as these show in 8 of 10 comparisons; 1, a doubling, where nothing can be told.

    Chosen by simulation over the plain t, which strays cost half of its power, the signed rank interval, which is
    empty below 6 blocks, and the bootstrap, which calls 10 to 20 % of equal pairs different with so few blocks.

    Raises: ValueError if a and b are not equally long.
    Source: J. W. Tukey & D. H. McLaughlin, "Less vulnerable confidence and significance procedures for location based
        on a single sample", Sankhyā A 25 (1963).
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} blocks of A and {len(b)} of B: they are compared in pairs")
    blocks = len(a)
    first, second = np.array(a, np.float64), np.array(b, np.float64)
    usable = np.isfinite(first) & np.isfinite(second) & (first > 0) & (second > 0)
    ratios = np.log(second[usable]) - np.log(first[usable])
    if blocks < LEAST_BLOCKS:
        return _untold(
            metric, ratios, blocks, f"{blocks} blocks of each are too few, at least {LEAST_BLOCKS} are needed"
        )
    if not usable.all():
        return _untold(metric, ratios, blocks, f"block {int(usable.argmin()) + 1} has no value")
    reach = _reach(ratios)
    low, value, high = (math.expm1(reach.middle + side * reach.half_width) for side in (-1, 0, 1))
    verdict: Literal["faster", "slower", "cannot tell"] = "cannot tell"
    if low > 0 or high < 0:
        verdict = "slower" if (low > 0) == (better == "lower") else "faster"
        ends = sorted((abs(low), abs(high)))
        says = f"{metric}: B is {share_text(abs(value))} {verdict} (95 % interval {_interval(*ends)})"
    else:
        says = (
            f"{metric}: cannot tell: the difference is between {change_text(low)} and {change_text(high)}; "
            f"{blocks} blocks could show {share_text(math.expm1(reach.detectable))} or more"
        )
    return Comparison(
        metric=metric,
        verdict=verdict,
        difference=Estimate(value=value, low=low, high=high),
        minimum_detectable=math.expm1(reach.detectable),
        blocks=blocks,
        says=says,
    )


def _reach(ratios: Floats) -> _Reach:
    """The trimmed mean, its interval by the winsorised variance, and what that interval can show."""
    count = len(ratios)
    strays = count // _PAIRS_PER_STRAY
    ordered = np.sort(ratios)
    kept = ordered[strays : count - strays]
    tamed = np.clip(ordered, kept[0], kept[-1])
    error = float(tamed.std(ddof=1)) * math.sqrt(count) / len(kept)
    freedom = len(kept) - 1
    sure = student_quantile((1 + _CONFIDENCE) / 2, freedom) * error
    likely = student_quantile(_POWER, freedom) * error
    half_width = max(sure, _RESOLUTION)
    return _Reach(float(kept.mean()), half_width, half_width + likely)


def _untold(metric: str, ratios: Floats, blocks: int, reason: str) -> Comparison:
    value = math.expm1(float(np.median(ratios))) if len(ratios) else 0.0
    return Comparison(
        metric=metric,
        verdict="cannot tell",
        difference=Estimate(value=value, low=None, high=None),
        minimum_detectable=1.0,
        blocks=blocks,
        says=f"{metric}: cannot tell: {reason}",
    )


def _interval(low: float, high: float) -> str:
    """`5.1 to 9.4 %`."""
    return f"{share_text(low).removesuffix(' %')} to {share_text(high)}"
