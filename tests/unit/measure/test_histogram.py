"""The histogram against the sorted samples themselves."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guepard.measure.histogram import (
    BUCKET_COUNT,
    Histogram,
    Integers,
    bucket_index,
    lower_edge,
    rank_of,
    upper_edge,
)

LARGEST = 2**63 - 1
QUANTILES = (0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0)

edges = st.integers(0, 63).flatmap(lambda power: st.sampled_from((2**power - 1, 2**power, 2**power + 1)))
durations = st.one_of(
    st.integers(0, 5_000),
    st.integers(10**6, 10**9),
    st.integers(0, LARGEST),
    edges.map(lambda edge: min(edge, LARGEST)),
)
samples = st.lists(durations, min_size=1, max_size=60)


def column(values: list[int]) -> Integers:
    return np.array(values, np.int64)


def histogram_of(*values: int) -> Histogram:
    return Histogram.of(column(list(values)))


def test_buckets_follow_one_another_without_a_gap() -> None:
    assert lower_edge(0) == 0
    assert all(upper_edge(index) + 1 == lower_edge(index + 1) for index in range(BUCKET_COUNT - 1))
    assert upper_edge(BUCKET_COUNT - 1) == LARGEST


def test_every_edge_lies_in_its_own_bucket() -> None:
    indices = np.arange(BUCKET_COUNT)
    assert np.array_equal(bucket_index(column([lower_edge(index) for index in range(BUCKET_COUNT)])), indices)
    assert np.array_equal(bucket_index(column([upper_edge(index) for index in range(BUCKET_COUNT)])), indices)


def test_no_bucket_is_wider_than_a_thousandth_of_its_values() -> None:
    assert all(upper_edge(index) - lower_edge(index) <= lower_edge(index) / 1_000 for index in range(BUCKET_COUNT))


@settings(deadline=None)
@given(samples)
def test_each_rank_has_its_value_within_a_thousandth(values: list[int]) -> None:
    histogram = histogram_of(*values)
    for rank, exact in enumerate(sorted(values), 1):
        assert exact <= histogram.value_at_rank(rank) <= exact + exact // 1_000


@settings(deadline=None)
@given(samples)
def test_percentiles_rise_from_the_minimum_to_the_maximum(values: list[int]) -> None:
    """locust#777: rounded percentiles came out above the maximum."""
    histogram = histogram_of(*values)
    found = [histogram.min_value, *(histogram.quantile(q) for q in QUANTILES), histogram.max_value]
    assert all(lower <= upper for lower, upper in pairwise(found))
    assert (found[0], found[-1]) == (min(values), max(values))


@pytest.mark.parametrize("values", [[123_456_789], [123_456_789, 987_654_321], [55_555_555] * 7])
def test_percentiles_of_very_few_values_are_those_values(values: list[int]) -> None:
    histogram = histogram_of(*values)
    for q in QUANTILES:
        exact = sorted(values)[max(math.ceil(q * len(values)), 1) - 1]
        assert exact <= histogram.quantile(q) <= min(exact * 1.001, max(values))
    if len(set(values)) == 1:
        assert {histogram.quantile(q) for q in QUANTILES} == set(values)


def test_one_value_each_from_1_to_100_ms() -> None:
    histogram = Histogram.of(np.arange(1, 101) * 1_000_000)
    assert 99_000_000 <= histogram.quantile(0.99) <= 99_099_000
    assert histogram.quantile(0.999) == histogram.quantile(1.0) == histogram.max_value == 100_000_000
    assert histogram.mean == 50_500_000


@settings(deadline=None)
@given(st.lists(samples, max_size=5))
def test_merged_parts_are_the_whole(parts: list[list[int]]) -> None:
    whole = histogram_of(*(value for part in parts for value in part))
    assert Histogram.merged(histogram_of(*part) for part in parts) == whole
    assert whole.total == sum(sum(part) for part in parts)


def test_adding_leaves_the_other_as_it_is() -> None:
    one, other = histogram_of(5, 10**9), histogram_of(7)
    one.add(other)
    one.record(column([8]))
    assert other == histogram_of(7)
    assert one == histogram_of(5, 7, 8, 10**9)


def test_answers_follow_what_is_recorded_later() -> None:
    histogram = histogram_of(10)
    assert histogram.quantile(0.5) == 10
    histogram.record(column([20, 30]))
    assert histogram.quantile(0.5) == 20
    histogram.add(histogram_of(40, 50, 60, 70))
    assert histogram.quantile(0.5) == 40


@settings(deadline=None)
@given(samples, durations)
def test_count_at_or_below_is_that_of_the_samples_but_for_one_bucket(values: list[int], value: int) -> None:
    index = int(bucket_index(column([value]))[0])
    found = histogram_of(*values).count_at_or_below(value)
    assert sum(sample <= value for sample in values) <= found
    assert found <= sum(sample <= upper_edge(index) for sample in values)


@settings(deadline=None)
@given(samples)
def test_sparse_form_and_back(values: list[int]) -> None:
    histogram = histogram_of(*values)
    indices, counts = histogram.sparse()
    again = Histogram.from_sparse(indices, counts, min_value=min(values), max_value=max(values), total=sum(values))
    assert again == histogram


@settings(deadline=None)
@given(samples)
def test_what_is_not_said_is_taken_from_the_buckets(values: list[int]) -> None:
    histogram = Histogram.from_sparse(*histogram_of(*values).sparse())
    assert histogram.min_value <= min(values) <= histogram.min_value * 1.001
    assert max(values) <= histogram.max_value <= max(values) * 1.001
    assert histogram.total == pytest.approx(sum(values), rel=0.0005)


def test_sparse_buckets_may_come_in_any_order_and_twice() -> None:
    indices = column([9, 3, 9, 5])
    assert Histogram.from_sparse(indices, column([1, 1, 2, 0])) == histogram_of(3, 9, 9, 9)


@pytest.mark.parametrize(
    ("indices", "counts", "bounds", "complaint"),
    [
        ([-1], [1], {}, "buckets -1"),
        ([BUCKET_COUNT], [1], {}, f"below {BUCKET_COUNT}"),
        ([5], [-1], {}, "count of -1"),
        ([5, 6], [2**62, 2**62], {}, "2\\*\\*63"),
        ([5], [1], {"min_value": 4}, "smallest value is said to be 4"),
        ([5], [1], {"max_value": 6}, "largest value is said to be 6"),
    ],
)
def test_sparse_forms_that_no_histogram_has(
    indices: list[int], counts: list[int], bounds: dict[str, int], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Histogram.from_sparse(column(indices), column(counts), **bounds)


def test_a_negative_duration_counts_nothing() -> None:
    histogram = histogram_of(1)
    with pytest.raises(ValueError, match="-2 ns"):
        histogram.record(column([5, -2]))
    assert histogram == histogram_of(1)


def test_an_empty_histogram_has_no_values() -> None:
    empty = Histogram()
    empty.record(column([]))
    empty.add(Histogram())
    assert (empty.count, empty.total, empty.count_at_or_below(5), repr(empty)) == (0, 0, 0, "Histogram(empty)")
    assert [part.size for part in empty.sparse()] == [0, 0]
    assert Histogram.from_sparse(*empty.sparse()) == empty == Histogram.merged([])
    for ask in (
        lambda: empty.min_value,
        lambda: empty.max_value,
        lambda: empty.mean,
        lambda: empty.quantile(0.5),
        lambda: empty.value_at_rank(1),
    ):
        with pytest.raises(ValueError):
            ask()


@pytest.mark.parametrize("rank", [0, 4])
def test_ranks_are_from_one_to_the_count(rank: int) -> None:
    with pytest.raises(ValueError, match=f"rank {rank} of 3 values"):
        histogram_of(1, 2, 3).value_at_rank(rank)


def test_sums_beyond_64_bits_are_exact() -> None:
    histogram = histogram_of(LARGEST, LARGEST, LARGEST - 1)
    assert histogram.total == 3 * LARGEST - 1
    assert histogram.quantile(1.0) == LARGEST


@pytest.mark.parametrize("percent", [0.1, 1, 7, 29, 50, 57, 99, 99.9, 99.99])
@pytest.mark.parametrize("count", [1, 3, 100, 1_000, 100_000, 10**9])
def test_nearest_rank_is_that_of_exact_arithmetic(percent: float, count: int) -> None:
    """100 x 0.07 is 7.000000000000001 in binary arithmetic, and its rank is 7 nevertheless."""
    assert rank_of(percent / 100, count) == max(-(-round(percent * 100) * count // 10_000), 1)


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_quantiles_are_from_0_to_1(q: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        histogram_of(1).quantile(q)


def test_differs_from_what_is_no_histogram() -> None:
    assert histogram_of(1) != 1
    assert histogram_of(1) != histogram_of(2)
