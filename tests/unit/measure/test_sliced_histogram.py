"""Histograms by slice against one plain histogram for each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guepard.measure.histogram import Histogram
from guepard.measure.sliced_histogram import MAX_SLICES, SlicedHistogram

batches = st.lists(
    st.lists(st.tuples(st.integers(0, 70), st.integers(0, 2**40)), min_size=0, max_size=20), min_size=1, max_size=5
)
borders = st.tuples(st.integers(0, 71), st.integers(0, 71)).map(sorted)


def filled(given_batches: list[list[tuple[int, int]]]) -> SlicedHistogram:
    sliced = SlicedHistogram()
    for batch in given_batches:
        table = np.array(batch, np.int64).reshape(-1, 2)
        sliced.record(table[:, 0], table[:, 1])
    return sliced


def plain(given_batches: list[list[tuple[int, int]]], first: int, end: int) -> Histogram:
    values = [value for batch in given_batches for at, value in batch if first <= at < end]
    return Histogram.of(np.array(values, np.int64))


@settings(deadline=None)
@given(batches, borders)
def test_a_stretch_holds_what_was_recorded_in_it(parts: list[list[tuple[int, int]]], stretch: list[int]) -> None:
    first, end = stretch
    sliced = filled(parts)
    assert sliced.merged(first, end) == plain(parts, first, end)
    assert sliced.merged(0, MAX_SLICES) == plain(parts, 0, MAX_SLICES)


@settings(deadline=None)
@given(batches, batches, borders)
def test_halving_makes_one_slice_of_two(
    before: list[list[tuple[int, int]]], after: list[list[tuple[int, int]]], stretch: list[int]
) -> None:
    first, end = stretch
    sliced = filled(before)
    sliced.halve()
    halved = [[(at // 2, value) for at, value in batch] for batch in before]
    assert sliced.merged(first, end) == plain(halved, first, end)
    for batch in after:
        table = np.array(batch, np.int64).reshape(-1, 2)
        sliced.record(table[:, 0], table[:, 1])
    assert sliced.merged(first, end) == plain(halved + after, first, end)


def test_many_values_in_many_batches() -> None:
    random = np.random.default_rng(3)
    sliced, slices, values = SlicedHistogram(), [], []
    for batch in range(40):
        slices.append(random.integers(batch, batch + 50, 5_000))
        values.append(random.lognormal(14, 1, 5_000).astype(np.int64))
        sliced.record(slices[-1], values[-1])
    at, what = np.concatenate(slices), np.concatenate(values)
    for first, end in ((0, 100), (10, 11), (17, 40)):
        assert sliced.merged(first, end) == Histogram.of(what[(at >= first) & (at < end)])


def test_the_last_slice_and_beyond() -> None:
    sliced = filled([[(MAX_SLICES - 1, 5)]])
    assert sliced.merged(MAX_SLICES - 1, 10**9).count == 1
    assert sliced.merged(MAX_SLICES, 10**9) == Histogram()


def test_a_negative_duration_counts_nothing() -> None:
    sliced = SlicedHistogram()
    with pytest.raises(ValueError, match="-3 ns"):
        sliced.record(np.array([0, 0]), np.array([5, -3]))
    assert sliced.merged(0, 1) == Histogram()
