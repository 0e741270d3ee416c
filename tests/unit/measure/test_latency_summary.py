"""A histogram as the result file has it."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from guepard.measure.histogram import Histogram
from guepard.measure.latency_summary import PERCENTS, histogram_of, summarise
from guepard.measure.results import Latency

RANDOM = np.random.default_rng(11)
VALUES = RANDOM.lognormal(15, 0.7, (40, 1_000)).astype(np.int64)
BLOCKS = [Histogram.of(values) for values in VALUES]
TOTAL = Histogram.merged(BLOCKS)


def test_figures_are_those_of_the_samples() -> None:
    latency = summarise(TOTAL, BLOCKS)
    assert latency.count == VALUES.size
    assert (latency.min_ms, latency.max_ms) == (VALUES.min() / 1e6, VALUES.max() / 1e6)
    assert latency.mean_ms == pytest.approx(VALUES.mean() / 1e6)
    assert tuple(found.percent for found in latency.percentiles) == PERCENTS
    for found in latency.percentiles:
        rank = -(-round(found.percent * 100) * VALUES.size // 10_000)
        exact = np.sort(VALUES, axis=None)[rank - 1] / 1e6
        assert exact <= found.value_ms <= exact * 1.001


def test_intervals_enclose_and_what_the_sample_cannot_tell_is_marked() -> None:
    latency = summarise(TOTAL, BLOCKS)
    by_percent = {found.percent: found for found in latency.percentiles}
    median = by_percent[50]
    assert median.low_ms is not None
    assert median.high_ms is not None
    assert median.low_ms < median.value_ms < median.high_ms
    assert median.is_supported
    assert not by_percent[99.99].is_supported
    assert by_percent[99.99].needed == 100_000
    assert 1 <= latency.effective_count <= latency.count


def test_blocks_serve_for_intervals_alone() -> None:
    """Percentiles are of merged samples, never averages of the blocks' own."""
    uneven = [Histogram.of(np.full(990, 1_000_000)), Histogram.of(np.full(10, 900_000_000))]
    latency = summarise(Histogram.merged(uneven), uneven, (50, 90, 99, 99.9))
    assert [round(found.value_ms, 2) for found in latency.percentiles] == [1.0, 1.0, 1.0, 900.0]


@pytest.mark.parametrize("values", [[123_456_789], [1, 999_999_999], [5_000_001] * 9])
def test_very_few_samples_stay_in_order(values: list[int]) -> None:
    """locust#777: rounded percentiles came out above the maximum."""
    total = Histogram.of(np.array(values))
    latency = summarise(total, [total])
    line = [latency.min_ms, *(found.value_ms for found in latency.percentiles), latency.max_ms]
    assert all(lower <= upper for lower, upper in pairwise(line))


def test_nothing_has_no_percentiles() -> None:
    latency = summarise(Histogram(), [])
    assert (latency.count, latency.percentiles, latency.max_ms) == (0, (), 0.0)
    assert histogram_of(latency) == Histogram()


def test_the_file_gives_the_histogram_back() -> None:
    text = msgspec.json.encode(summarise(TOTAL, BLOCKS))
    again = histogram_of(msgspec.json.decode(text, type=Latency))
    assert all(np.array_equal(*pair) for pair in zip(again.sparse(), TOTAL.sparse(), strict=True))
    assert (again.count, again.min_value, again.max_value) == (TOTAL.count, TOTAL.min_value, TOTAL.max_value)
    assert again.mean == pytest.approx(TOTAL.mean)


@pytest.mark.parametrize("change", [{"count": 5}, {"max_ms": 1e9}, {"min_ms": 0.0}, {"histogram": "HISTF"}])
def test_figures_that_do_not_belong_together_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        histogram_of(msgspec.structs.replace(summarise(TOTAL, BLOCKS), **change))
