"""How far a measured percentile or rate can be trusted.

Latencies of one server are alike when they are near in time: they share a queue, a cache, a pause. A thousand of them
may be worth fifty independent ones, and an interval that ignores it is far too narrow. So the run is cut into blocks
of time, and what the blocks differ by is compared with what chance would make them differ by.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from guepard.measure.autocorrelation import variance_factor
from guepard.measure.distributions import normal_quantile, order_ranks, student_quantile
from guepard.measure.results import Estimate

Floats = NDArray[np.float64]

# Of the samples beyond a percentile, so many effective ones are wanted before it is believed.
_WANTED_BEYOND = 10
# Blocks are joined to at least this many. Longer blocks see longer correlation, fewer leave the variance uncertain.
_BLOCKS = 20
_LEAST_FREEDOM = 2.0


class Distribution(Protocol):
    """What is needed of a histogram. Ranks run from 1 to `count`."""

    @property
    def count(self) -> int: ...

    def value_at_rank(self, rank: int) -> int: ...

    def quantile(self, q: float) -> int: ...

    def count_at_or_below(self, value: int) -> int: ...


class QuantileInterval(NamedTuple):
    """A quantile and what is known of it. `low` or `high` is None where the sample cannot tell that side.

    effective_count: how many independent samples these are worth, for this quantile.
    needed: how many samples this quantile needs to be told at all, whatever they are worth: that shows in the interval.
    """

    value: int
    low: int | None
    high: int | None
    effective_count: int
    needed: int
    is_supported: bool


class _Excess(NamedTuple):
    """How much more a sum over a run varies than independent samples would make it, and how well that is known."""

    ratio: float
    freedom: float


def needed_count(q: float) -> int:
    """How many samples the q-quantile needs: ten beyond it.

    Source: a rule of thumb. MLPerf is stricter with claims, for 99 % confidence in a margin: 262,742 queries for p99
    (mlcommons/inference_policies, inference_rules.adoc).
    """
    return math.ceil(round(_WANTED_BEYOND / (1 - q), 6))


def quantile_interval(
    total: Distribution, blocks: Sequence[Distribution], q: float, confidence: float = 0.95
) -> QuantileInterval:
    """The q-quantile of `total`, and an interval that holds the true one with this confidence, whatever the shape.

    0 < q < 1. `blocks` are the pieces of time that `total` is the sum of, in order and about equally long: at least
    20, better 40. It works as long as latencies a block apart are not much alike. Without blocks, samples are taken
    as independent.

    The interval lies between two samples, whose ranks come from the binomial distribution of how many samples fall
    below the true quantile, for as many samples as these are worth: count / design effect. The design effect is the
    variance of the number of samples below the quantile, over blocks, against the binomial one. It is at least 1, is
    raised for blocks that are like their neighbours, and for a quantile in the tail, beyond which little is seen,
    partly taken from a quantile less far out. That it is estimated is paid for with Student's t in place of the
    normal, with fewer degrees of freedom where few blocks hold most of the variance. A side is None if the samples do
    not reach so far, and where they are correlated, if fewer than about ten effective ones lie beyond the quantile.

    Raises: ValueError without samples.
    Cost: two passes over the blocks and about a millisecond.
    Source: order statistics, H. A. David & H. N. Nagaraja, Order Statistics, 7.1; design effect of clusters, L. Kish,
        Survey Sampling (1965); batch means, A. M. Law, Simulation Modeling and Analysis, 9.5.
    """
    count = total.count
    if count < 1:
        raise ValueError("no samples: a quantile needs at least one")
    value = total.quantile(q)
    excess = _design_effect(total, blocks, value)
    nearer = 1 - min(0.5, 4 * (1 - q)) if q > 0.5 else min(0.5, 4 * q)
    if nearer != q and blocks:
        # Few samples beyond a quantile hide how they cling together.
        pooled = math.sqrt(excess.ratio * _design_effect(total, blocks, total.quantile(nearer)).ratio)
        excess = excess._replace(ratio=max(excess.ratio, pooled))
    worth = count / excess.ratio
    z = normal_quantile((1 + confidence) / 2)
    t = student_quantile((1 + confidence) / 2, excess.freedom)
    cautious = max(worth * (z / t) ** 2, 1.0)
    low_rank, high_rank = order_ranks(cautious, q, confidence)
    scale = (count + 1) / (cautious + 1)
    # A ratio that chance alone brings in one of twenty runs of independent samples does not count against them.
    is_correlated = excess.ratio > 1 + normal_quantile(0.95) * math.sqrt(2 / excess.freedom)
    effective_count = int(worth) if is_correlated else count
    wanted = _WANTED_BEYOND * (1 - 1 / excess.ratio) if is_correlated else 0
    low = None if low_rank < 1 or cautious * q < wanted else _value_between(total, low_rank * scale)
    high = None if high_rank > cautious or cautious * (1 - q) < wanted else _value_between(total, high_rank * scale)
    needed = needed_count(q)
    return QuantileInterval(value, low, high, effective_count, needed, is_supported=count >= needed)


def mean_interval(block_values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The mean of one value per block of time, and its interval; blocks may be like their neighbours.

    Source: batch means with Student's t, A. M. Law, Simulation Modeling and Analysis, 9.5.
    """
    values = np.asarray(block_values, np.float64)
    if len(values) == 0:
        raise ValueError("no blocks: a mean needs at least one")
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(value=mean, low=None, high=None)
    residuals = values - mean
    independent = len(values) - 1
    more = variance_factor(residuals)
    variance = float(residuals @ residuals) / independent / len(values) * more
    freedom = max(independent / more, min(independent, _LEAST_FREEDOM))
    reach = student_quantile((1 + confidence) / 2, freedom) * math.sqrt(variance)
    return Estimate(value=mean, low=mean - reach, high=mean + reach)


def rate_interval(block_rates: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The mean rate over equal blocks of time, and its interval, which does not go below zero."""
    estimate = mean_interval(block_rates, confidence)
    if estimate.low is None:
        return estimate
    return Estimate(value=estimate.value, low=max(estimate.low, 0.0), high=estimate.high)


def _design_effect(total: Distribution, blocks: Sequence[Distribution], value: int) -> _Excess:
    """How much more the number of samples at or below `value` varies than if samples were independent."""
    if not blocks:
        return _Excess(1.0, math.inf)
    below = _joined([block.count_at_or_below(value) for block in blocks])
    counts = _joined([block.count for block in blocks])
    blocks_count = len(counts)
    if blocks_count < 2 or not counts.any():
        # All that was seen may lie after the last full block of time.
        return _Excess(1.0, 1.0)
    share = min(total.count_at_or_below(value) / total.count, 1 - 0.5 / total.count)
    residuals = below - share * counts
    chance = share * (1 - share) * float(counts.sum())
    squares = float(residuals @ residuals)
    more = variance_factor(residuals)
    ratio = squares / chance * blocks_count / (blocks_count - 1) * more
    freedom = (blocks_count - 1) / more
    if squares > 0:
        # A variance that a few blocks make up is known no better than those few tell. Rare events alone do that too,
        # and are what the binomial distribution expects: 3 + 1 / (expected events per block).
        kurtosis = float((residuals**4).sum()) * blocks_count / squares**2
        freedom /= max(1.0, 1 + (kurtosis - 3 - blocks_count / chance) / 2)
    return _Excess(max(ratio, 1.0), max(freedom, min(blocks_count - 1, _LEAST_FREEDOM)))


def _joined(counts: Sequence[int]) -> Floats:
    """Neighbours added up, so that 20 to 39 are left; fewer stay as they are."""
    array = np.array(counts, np.float64)
    return np.add.reduceat(array, np.arange(0, len(array), max(1, len(array) // _BLOCKS)))


def _value_between(total: Distribution, rank: float) -> int:
    """The value at a rank that may lie between two."""
    rank = min(max(rank, 1.0), float(total.count))
    whole = math.floor(rank)
    value = total.value_at_rank(whole)
    if rank == whole:
        return value
    return round(value + (rank - whole) * (total.value_at_rank(whole + 1) - value))
