"""A histogram of nanoseconds with three significant digits, that grows with what it is given.

The buckets are HdrHistogram's, with 1 as the lowest discernible value: exact up to 2,047, then 1,024 buckets for each
power of two, so that no bucket is wider than 1/1,024 of the values in it. Every int64 from 0 has its bucket, so nothing
is clamped and nothing is lost. Beside the counts it keeps the smallest value, the largest and the sum, exactly.

Histograms of parts add up to the histogram of the whole. Percentiles do not: merge histograms, never percentiles.

Source: HdrHistogram, docs of org.HdrHistogram.Histogram (sub-bucket layout, equivalent values).
"""

import math
from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

SIGNIFICANT_DIGITS = 3
_EXACT_BITS = 11
_STEP_BITS = _EXACT_BITS - 1
_STEPS = 1 << _STEP_BITS
BUCKET_COUNT = (63 - _EXACT_BITS + 2) * _STEPS

# A float64 has its exponent, biased by 1,023, above 52 bits of mantissa, so its bits from 52 - 10 on are the number of
# the power of two and of the step in it. 1,024, the first value found so, has to come out as 1,024.
_MANTISSA_BITS = 52
_FIRST_EXPONENT = 1_023 + _STEP_BITS - 1
_LARGEST_EXACT_FLOAT = 1 << 53

_GROWTH = _STEPS


def bucket_index(values: Integers) -> Integers:
    """The bucket of each value. Values must not be negative. Cost: a few ns per value."""
    if not values.size:
        return np.zeros(0, np.int64)
    largest = int(values.max())
    if largest < _STEPS:
        return values.astype(np.int64)
    if largest >= _LARGEST_EXACT_FLOAT:
        # Float64 would round up, perhaps into the next bucket. Above 2**21 the lowest bits don't matter to the index.
        values = np.where(values >= _LARGEST_EXACT_FLOAT, values & -_STEPS, values)
    steps = (values.astype(np.float64).view(np.int64) >> (_MANTISSA_BITS - _STEP_BITS)) - _FIRST_EXPONENT * _STEPS
    return np.where(values < _STEPS, values, steps)


def lower_edge(index: int) -> int:
    """The smallest value of a bucket."""
    power = max((index >> _STEP_BITS) - 1, 0)
    return (index - (power << _STEP_BITS)) << power


def upper_edge(index: int) -> int:
    """The largest value of a bucket; HdrHistogram calls it the highest equivalent value."""
    return lower_edge(index) + (1 << max((index >> _STEP_BITS) - 1, 0)) - 1


class Histogram:
    """Counts of nanoseconds. An empty one has a count and takes questions about counts, but has no values to tell."""

    __slots__ = ("_count", "_counts", "_cumulative", "_largest", "_smallest", "_total")

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)
        self._cumulative: Integers | None = None
        self._count = 0
        self._total = 0
        self._smallest = 0
        self._largest = 0

    @classmethod
    def of(cls, values: Integers) -> Self:
        histogram = cls()
        histogram.record(values)
        return histogram

    @classmethod
    def merged(cls, parts: "Iterable[Histogram]") -> Self:
        """A new one with everything that the parts hold."""
        whole = cls()
        for part in parts:
            whole.add(part)
        return whole

    @classmethod
    def from_sparse(
        cls,
        indices: Integers,
        counts: Integers,
        *,
        min_value: int | None = None,
        max_value: int | None = None,
        total: int | None = None,
    ) -> Self:
        """From buckets and their counts, in any order; a bucket that comes twice is added up.

        What is not known exactly is taken from the buckets: the outer edges of the first and the last one, and a sum
        of their middles, which lies within 0.05 % of the true one.

        Raises: ValueError for an index that is no bucket, a negative count, and for a smallest or largest value
            that lies outside the first or last bucket.
        """
        if indices.size and not (indices.min() >= 0 and indices.max() < BUCKET_COUNT):
            raise ValueError(f"buckets {indices.min()} to {indices.max()}: there are those below {BUCKET_COUNT}")
        if counts.size and counts.min() < 0:
            raise ValueError(f"a bucket with a count of {counts.min()}: counts are 0 or more")
        held = counts > 0
        indices, counts = indices[held], counts[held]
        histogram = cls()
        if not indices.size:
            return histogram
        first, last = int(indices.min()), int(indices.max())
        histogram._reach(last)
        np.add.at(histogram._counts, indices, counts)
        histogram._count = _exact_sum(counts)
        if histogram._count >= 1 << 63:
            raise ValueError(f"{histogram._count} values: counts up to 2**63 - 1 are held")
        histogram._smallest = lower_edge(first) if min_value is None else min_value
        histogram._largest = upper_edge(last) if max_value is None else max_value
        for name, value, index in (("smallest", histogram._smallest, first), ("largest", histogram._largest, last)):
            if not lower_edge(index) <= value <= upper_edge(index):
                raise ValueError(
                    f"the {name} value is said to be {value}, but its bucket holds {lower_edge(index)} to "
                    f"{upper_edge(index)}: take both from the same histogram"
                )
        histogram._total = _middles_sum(indices, counts) if total is None else total
        return histogram

    def record(self, values: Integers) -> None:
        """Count each value once.

        Raises: ValueError for a negative value; then nothing was counted.
        Cost: about 15 ns per value for many at once, some 10 µs for a few.
        """
        if not values.size:
            return
        smallest, largest = int(values.min()), int(values.max())
        if smallest < 0:
            raise ValueError(f"a duration of {smallest} ns: durations are 0 or more; was a clock set back?")
        indices = bucket_index(values)
        self._reach(int(indices.max()))
        np.add.at(self._counts, indices, 1)
        self._include(values.size, _exact_sum(values), smallest, largest)

    def add(self, other: "Histogram") -> None:
        """Count everything that the other one holds. The other one stays as it is."""
        if not other._count:
            return
        counts = other._counts
        self._reach(len(counts) - 1)
        self._counts[: len(counts)] += counts
        self._include(other._count, other._total, other._smallest, other._largest)

    def _reach(self, index: int) -> None:
        if index >= len(self._counts):
            grown = np.zeros((index // _GROWTH + 1) * _GROWTH, np.int64)
            grown[: len(self._counts)] = self._counts
            self._counts = grown

    def _include(self, count: int, total: int, smallest: int, largest: int) -> None:
        self._smallest = min(self._smallest, smallest) if self._count else smallest
        self._largest = max(self._largest, largest)
        self._count += count
        self._total += total
        self._cumulative = None

    @property
    def count(self) -> int:
        return self._count

    @property
    def total(self) -> int:
        """The sum of all values; 0 of an empty one."""
        return self._total

    @property
    def min_value(self) -> int:
        """The smallest value, exactly. Raises: ValueError if empty."""
        self._need_values()
        return self._smallest

    @property
    def max_value(self) -> int:
        """The largest value, exactly. Raises: ValueError if empty."""
        self._need_values()
        return self._largest

    @property
    def mean(self) -> float:
        """From the exact sum. Raises: ValueError if empty."""
        self._need_values()
        return self._total / self._count

    def value_at_rank(self, rank: int) -> int:
        """The value that is number `rank` from below, 1 to count, up to 0.1 % more than it was.

        It is the largest value of its bucket, but within what was recorded, so a higher rank never has a lower value
        and none is above the maximum (locust#777).

        Raises: ValueError for a rank outside 1 to count, and so for every rank of an empty one.
        """
        if not 1 <= rank <= self._count:
            raise ValueError(f"rank {rank} of {self._count} values: ranks are from 1 to the number of values")
        index = int(self._ranks().searchsorted(rank))
        return min(max(upper_edge(index), self._smallest), self._largest)

    def quantile(self, q: float) -> int:
        """The smallest value that at least the share `q` of all values does not exceed (nearest rank).

        Raises: ValueError outside 0 to 1, and if empty.
        """
        self._need_values()
        return self.value_at_rank(rank_of(q, self._count))

    def count_at_or_below(self, value: int) -> int:
        """How many values are at most `value`, give or take those in its own bucket, which count as at most it."""
        if not self._count or value < self._smallest:
            return 0
        if value >= self._largest:
            return self._count
        return int(self._ranks()[bucket_index(np.array([value]))[0]])

    def sparse(self) -> tuple[Integers, Integers]:
        """Buckets that hold something, in ascending order, and their counts."""
        indices = np.flatnonzero(self._counts)
        return indices, self._counts[indices]

    def _ranks(self) -> Integers:
        if self._cumulative is None:
            self._cumulative = self._counts.cumsum()
        return self._cumulative

    def _need_values(self) -> None:
        if not self._count:
            raise ValueError("an empty histogram has no values: look at its count first")

    def __eq__(self, other: object) -> bool:
        """The same counts in the same buckets, and the same smallest value, largest value and sum."""
        if not isinstance(other, Histogram):
            return NotImplemented
        mine, theirs = self.sparse(), other.sparse()
        return (self._count, self._total, self._smallest, self._largest) == (
            other._count,
            other._total,
            other._smallest,
            other._largest,
        ) and all(np.array_equal(left, right) for left, right in zip(mine, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        if not self._count:
            return "Histogram(empty)"
        return f"Histogram(count={self._count}, min={self._smallest}, mean={self.mean:.1f}, max={self._largest})"


def rank_of(q: float, count: int) -> int:
    """The nearest rank of a quantile: the smallest rank that is at least `q` x `count`, and at least 1.

    A product that ought to be whole may come out a few units of the last place too high (0.07 x 100 does), which would
    take the next rank; so much is forgiven.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"quantile {q}: quantiles are from 0 to 1")
    return min(max(math.ceil(q * count * (1 - 1e-15)), 1), count)


def _exact_sum(values: Integers) -> int:
    if int(values.max()) < (1 << 63) // values.size:
        return int(values.sum())
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _middles_sum(indices: Integers, counts: Integers) -> int:
    pairs: Iterable[tuple[int, int]] = zip(indices.tolist(), counts.tolist(), strict=True)
    return sum((lower_edge(index) + upper_edge(index)) * count for index, count in pairs) // 2
