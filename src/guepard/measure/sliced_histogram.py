"""One histogram for each slice of time, small enough to keep them all, so that a window can be chosen afterwards.

A cell is a bucket of a slice that holds something: one integer with the slice in its highest bits, then the bucket,
then the count. Sorted, cells of a slice, or of a stretch of slices, lie side by side.

    bit 63..48 slice │ 47..32 bucket │ 31..0 count

New values wait as cells with a count of 1, in no order, until they are many. Then they are sorted and merged with the
settled ones, whose counts grow. Settled cells lie in chunks of a few slices, of which new values touch the latest. So
memory grows with time and with how far values spread, not with the number of values, and no step takes long.
"""

import numpy as np

from guepard.measure.histogram import BUCKET_COUNT, Histogram, Integers, bucket_index

MAX_SLICES = 2_048
"""More than these are never kept: `halve` makes room. A count stays below 2**32 while one slice has fewer values."""

_SLICE_SHIFT = 48
_BUCKET_SHIFT = 32
_BUCKET_MASK = 0xFFFF
_COUNT_MASK = 0xFFFF_FFFF
_CHUNK_SHIFT = _SLICE_SHIFT + 4
_WAITING_LIMIT = 1 << 16


class SlicedHistogram:
    """Histograms of slices 0 to MAX_SLICES - 1."""

    __slots__ = ("_chunks", "_largest", "_smallest", "_totals", "_waiting", "_waiting_count")

    def __init__(self) -> None:
        self._chunks: dict[int, Integers] = {}
        self._waiting: list[Integers] = []
        self._waiting_count = 0
        self._smallest = np.full(MAX_SLICES, np.iinfo(np.int64).max, np.int64)
        self._largest = np.full(MAX_SLICES, -1, np.int64)
        self._totals = np.zeros(MAX_SLICES, np.int64)

    def record(self, slices: Integers, values: Integers) -> None:
        """Count value i in slice i.

        Raises: ValueError for a negative value; then nothing was counted.
        Cost: about 0.1 µs per value, for many at once.
        """
        if not values.size:
            return
        if values.min() < 0:
            raise ValueError(f"a duration of {values.min()} ns: durations are 0 or more; was a clock set back?")
        np.minimum.at(self._smallest, slices, values)
        np.maximum.at(self._largest, slices, values)
        np.add.at(self._totals, slices, values)
        self._waiting.append((slices << _SLICE_SHIFT) | (bucket_index(values) << _BUCKET_SHIFT) | 1)
        self._waiting_count += values.size
        if self._waiting_count >= _WAITING_LIMIT:
            self._settle()

    def merged(self, first: int, end: int) -> Histogram:
        """Everything of the slices from `first` to before `end`, as a histogram of its own."""
        self._settle()
        end = min(end, MAX_SLICES)
        low, high = first << _SLICE_SHIFT, end << _SLICE_SHIFT
        counts = np.zeros(BUCKET_COUNT, np.int64)
        for number in range(low >> _CHUNK_SHIFT, ((high - 1) >> _CHUNK_SHIFT) + 1):
            chunk = self._chunks.get(number)
            if chunk is not None:
                begin, stop = chunk.searchsorted((low, high))
                cells = chunk[begin:stop]
                np.add.at(counts, (cells >> _BUCKET_SHIFT) & _BUCKET_MASK, cells & _COUNT_MASK)
        indices = np.flatnonzero(counts)
        if not indices.size:
            return Histogram()
        return Histogram.from_sparse(
            indices,
            counts[indices],
            min_value=int(self._smallest[first:end].min()),
            max_value=int(self._largest[first:end].max()),
            total=sum(self._totals[first:end].tolist()),
        )

    def halve(self) -> None:
        """Make one slice of every two, so that half of the places are free."""
        self._settle()
        halved: dict[int, list[Integers]] = {}
        for number, cells in sorted(self._chunks.items()):
            moved = (cells >> (_SLICE_SHIFT + 1) << _SLICE_SHIFT) | (cells & ((1 << _SLICE_SHIFT) - 1))
            moved.sort(kind="stable")
            halved.setdefault(number // 2, []).append(_added_up(moved))
        self._chunks = {number: np.concatenate(parts) for number, parts in halved.items()}
        self._smallest = _padded(np.minimum(self._smallest[::2], self._smallest[1::2]), np.iinfo(np.int64).max)
        self._largest = _padded(np.maximum(self._largest[::2], self._largest[1::2]), -1)
        self._totals = _padded(self._totals[::2] + self._totals[1::2], 0)

    def _settle(self) -> None:
        if not self._waiting:
            return
        waiting = np.concatenate(self._waiting)
        waiting.sort()
        self._waiting.clear()
        self._waiting_count = 0
        cells = _added_up(waiting)
        numbers = cells >> _CHUNK_SHIFT
        starts = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        for part in np.split(cells, starts):
            number = int(part[0] >> _CHUNK_SHIFT)
            chunk = self._chunks.get(number)
            if chunk is None:
                self._chunks[number] = part.copy()
            else:
                both = np.concatenate((chunk, part))
                both.sort(kind="stable")  # takes two sorted runs in one pass
                self._chunks[number] = _added_up(both)


def _added_up(cells: Integers) -> Integers:
    """Sorted cells, with those of the same bucket in one. Ownership: the given ones may be returned."""
    keys = cells >> _BUCKET_SHIFT
    is_first = np.empty(len(cells), np.bool_)
    is_first[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    if len(starts) == len(cells):
        return cells
    counts = np.add.reduceat(cells & _COUNT_MASK, starts)
    return (keys[starts] << _BUCKET_SHIFT) | counts


def _padded(half: Integers, empty: int) -> Integers:
    whole = np.full(MAX_SLICES, empty, np.int64)
    whole[: len(half)] = half
    return whole
