"""The histogram against counting by hand."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from guepard.telemetry.histogram import (
    LATENCY_BOUNDS_NS,
    LATENCY_BOUNDS_SECONDS,
    HistogramSnapshot,
    LatencyHistogram,
    batch_size_histogram,
)

durations = st.one_of(
    st.integers(0, 10**13), st.sampled_from(LATENCY_BOUNDS_NS).flatmap(lambda b: st.sampled_from((b - 1, b, b + 1)))
)


def counted_by_hand(values: list[int]) -> HistogramSnapshot:
    cumulative = [sum(value <= bound for value in values) for bound in LATENCY_BOUNDS_NS]
    return HistogramSnapshot(LATENCY_BOUNDS_SECONDS, (*cumulative, len(values)), sum(values))


def test_bounds_rise_from_10_microseconds_to_100_seconds() -> None:
    assert LATENCY_BOUNDS_NS[0] == 10_000
    assert LATENCY_BOUNDS_NS[-1] == 100 * 10**9
    assert all(1 < after / before <= 2.5 for before, after in pairwise(LATENCY_BOUNDS_NS))


@settings(deadline=None)
@given(st.lists(durations, max_size=50), st.lists(durations, max_size=50))
def test_appended_durations_are_counted_and_summed_exactly(first: list[int], second: list[int]) -> None:
    histogram = LatencyHistogram()
    for value in first:
        histogram.append(value)
    assert histogram.snapshot() == counted_by_hand(first)
    for value in second:
        histogram.append(value)
    assert histogram.snapshot() == counted_by_hand(first + second)


@settings(deadline=None)
@given(st.lists(st.tuples(durations, st.integers(0, 200)), max_size=50))
def test_observed_durations_count_as_often_as_they_are_repeated(pairs: list[tuple[int, int]]) -> None:
    histogram = LatencyHistogram()
    histogram.observe(np.array([d for d, _ in pairs], np.int64), np.array([n for _, n in pairs], np.int64))
    assert histogram.snapshot() == counted_by_hand([duration for duration, n in pairs for _ in range(n)])


def test_nothing_is_lost_where_pending_durations_are_folded() -> None:
    values = [(7 * n) ** 3 for n in range(5_000)]
    histogram = LatencyHistogram()
    for value in values:
        histogram.append(value)
    assert histogram.snapshot() == counted_by_hand(values)


def test_batch_sizes_fall_into_powers_of_two() -> None:
    snapshot = batch_size_histogram({1: 2, 3: 5, 4: 1, 5_000: 1})
    assert snapshot.bounds[:4] == (1, 2, 4, 8)
    assert snapshot.cumulative == (2, 2, *[8] * 9, 9)
    assert snapshot.count == 9
    assert snapshot.total == 2 + 15 + 4 + 5_000
