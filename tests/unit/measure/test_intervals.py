"""Intervals of percentiles and rates: what they hold, and how often they hold the truth."""

from itertools import product

import numpy as np
import pytest
from numpy.random import default_rng

from guepard.measure.histogram import Histogram
from guepard.measure.intervals import QuantileInterval, mean_interval, needed_count, quantile_interval, rate_interval
from tests.unit.measure.samples import MILLISECOND, SOURCES, Integers, Samples, autoregressive

RUNS = 1_000


def interval_of(values: Integers, blocks: int, q: float) -> QuantileInterval:
    return quantile_interval(Samples(values), [Samples(block) for block in np.array_split(values, blocks)], q)


def coverage(source: str, count: int, blocks: int, qs: tuple[float, ...]) -> dict[float, tuple[float, float]]:
    """For each q the share of runs whose interval holds the truth, and of those whose interval has two ends."""
    runs = np.round(SOURCES[source].draw(default_rng(1), RUNS, count) * MILLISECOND).astype(np.int64)
    result = {}
    truth = {q: SOURCES[source].quantile(q) * MILLISECOND for q in qs}
    held = dict.fromkeys(qs, 0)
    closed = dict.fromkeys(qs, 0)
    for values in runs:
        total, pieces = Samples(values), [Samples(block) for block in np.array_split(values, blocks)]
        for q in qs:
            found = quantile_interval(total, pieces, q)
            is_above = found.low is not None and found.low > truth[q]
            is_below = found.high is not None and found.high < truth[q]
            held[q] += not is_above and not is_below
            closed[q] += found.low is not None and found.high is not None
    for q in qs:
        result[q] = held[q] / RUNS, closed[q] / RUNS
    return result


def check_coverage(source: str, count: int, blocks: int, qs: tuple[float, ...]) -> None:
    for q, (held, closed) in coverage(source, count, blocks, qs).items():
        # An M/M/1 queue at 0.7 remembers 30 requests; of 200 in 20 blocks, each has 10.
        least = 0.92 if source == "M/M/1 at 0.7" and count == 200 else 0.93
        # Where most runs leave a side open, they hold the truth more often.
        most = 0.99 if closed > 0.5 else 1.0
        assert least <= held <= most, f"p{100 * q:g} of {count} {source} in {blocks} blocks: {held:.1%}"


@pytest.mark.parametrize(
    ("source", "count", "blocks"),
    [
        ("lognormal", 1_000, 40),
        ("bimodal", 1_000, 20),
        ("autoregressive 0.9", 1_000, 40),
        ("M/M/1 at 0.7", 1_000, 20),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(source: str, count: int, blocks: int) -> None:
    check_coverage(source, count, blocks, (0.5, 0.9, 0.99))


@pytest.mark.slow
@pytest.mark.parametrize(("source", "count", "blocks"), list(product(SOURCES, (200, 1_000, 10_000), (20, 30, 60))))
def test_all_intervals_hold_the_truth_as_often_as_they_say(source: str, count: int, blocks: int) -> None:
    check_coverage(source, count, blocks, (0.5, 0.9, 0.99, 0.999)[: 3 if count < 10_000 else 4])


def test_ignoring_correlation_would_fail() -> None:
    """What the blocks are for: without them the interval holds the truth in under half of the runs."""
    runs = np.round(autoregressive(0.9).draw(default_rng(1), RUNS, 1_000) * MILLISECOND).astype(np.int64)
    found = [quantile_interval(Samples(values), (), 0.5) for values in runs]
    held = sum(
        each.low is not None and each.high is not None and each.low <= MILLISECOND <= each.high for each in found
    )
    assert held < RUNS / 2


def test_independent_samples_are_worth_what_they_are() -> None:
    values = default_rng(2).permutation(np.arange(1, 10_001))
    found = interval_of(values, 40, 0.99)
    assert found.value == 9_900
    assert found.effective_count == 10_000
    assert found.is_supported
    assert found.low is not None
    assert found.high is not None
    assert 9_870 <= found.low < 9_890
    assert 9_910 < found.high <= 9_930


def test_samples_that_repeat_their_neighbours_are_worth_fewer() -> None:
    found = interval_of(np.repeat(default_rng(3).permutation(np.arange(1, 1_001)), 10), 40, 0.5)
    assert 500 < found.effective_count < 2_000
    assert found.is_supported


def test_a_slow_second_is_one_event() -> None:
    """A hundred slow requests in a row do not make a p99 of 10,000 sure: it may be fast or slow."""
    values = default_rng(4).integers(1_000, 2_000, 10_000)
    values[4_000:4_120] = 1_000_000
    found = interval_of(values, 40, 0.99)
    assert found.value == 1_000_000
    assert found.low is not None
    assert found.low < 2_000
    assert found.high is None


@pytest.mark.parametrize(("count", "high"), [(300, False), (1_200, True)])
def test_a_side_that_the_sample_cannot_give_is_none(count: int, high: bool) -> None:
    found = interval_of(default_rng(5).permutation(np.arange(count)), 20, 0.99)
    assert (found.high is not None) == high
    assert found.low is not None
    assert found.is_supported == high


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("q", [0.5, 0.99])
@pytest.mark.parametrize("blocks", [0, 1, 20])
def test_a_handful_of_samples(count: int, q: float, blocks: int) -> None:
    values = np.arange(1, count + 1)
    pieces = [Samples(block) for block in np.array_split(values, blocks)] if blocks else []
    found = quantile_interval(Samples(values), pieces, q)
    assert 1 <= found.value <= count
    assert not found.is_supported
    assert found.low is None or found.low <= found.value
    assert found.high is None or found.high >= found.value


def test_equal_samples() -> None:
    found = interval_of(np.full(5_000, 7), 30, 0.9)
    assert (found.low, found.value, found.high) == (7, 7, 7)


def test_one_block_tells_next_to_nothing() -> None:
    values = default_rng(6).permutation(np.arange(1_000))
    one, many = interval_of(values, 1, 0.5), interval_of(values, 20, 0.5)
    assert one.low is None or many.low is None or one.low < many.low
    assert one.high is None or many.high is None or one.high > many.high


def test_samples_after_the_last_block_are_worth_what_they_are() -> None:
    found = quantile_interval(Samples(np.arange(100)), [Samples(np.array([], np.int64))] * 20, 0.5)
    assert found.effective_count == 100
    assert found.low is None or found.low <= found.value


def test_no_samples() -> None:
    with pytest.raises(ValueError, match="no samples"):
        quantile_interval(Samples(np.array([], np.int64)), (), 0.5)


@pytest.mark.parametrize(("q", "needed"), [(0.5, 20), (0.9, 100), (0.99, 1_000), (0.999, 10_000), (0.9999, 100_000)])
def test_needed(q: float, needed: int) -> None:
    assert needed_count(q) == needed


def test_histograms_and_samples_agree() -> None:
    """Histograms round to a thousandth."""
    values = np.round(default_rng(7).lognormal(16, 0.5, 4_000)).astype(np.int64)
    blocks = []
    total = Histogram()
    for part in np.array_split(values, 40):
        block = Histogram()
        block.record(part)
        blocks.append(block)
        total.add(block)
    for q in (0.5, 0.9, 0.99):
        rough, exact = quantile_interval(total, blocks, q), interval_of(values, 40, q)
        for ours, theirs in zip(rough[:3], exact[:3], strict=True):
            assert ours == pytest.approx(theirs, rel=0.01)
        assert rough.is_supported == exact.is_supported


@pytest.mark.parametrize("blocks", [5, 20, 60])
@pytest.mark.parametrize("likeness", [0.0, 0.3])
def test_mean_intervals_hold_the_truth(blocks: int, likeness: float) -> None:
    runs = 4 * RUNS
    noise = 2 * np.log(autoregressive(likeness).draw(default_rng(9), runs, blocks))
    found = [mean_interval(list(values)) for values in 100 + 5 * noise]
    held = sum(each.low is not None and each.high is not None and each.low <= 100 <= each.high for each in found)
    assert (0.91 if blocks == 5 and likeness else 0.93) <= held / runs <= 0.99


def test_an_interval_of_a_rate() -> None:
    found = rate_interval([10.0, 10.0, 10.0, 10.0])
    assert (found.low, found.value, found.high) == (10, 10, 10)
    alone = rate_interval([5.0])
    assert (alone.low, alone.value, alone.high) == (None, 5, None)
    assert rate_interval([0.0, 9.0, 0.0]).low == 0


def test_no_blocks() -> None:
    with pytest.raises(ValueError, match="no blocks"):
        mean_interval([])
