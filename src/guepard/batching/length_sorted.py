"""Requests that wait for a model with padding: batches of neighbours in length, around the one that waited longest.

A bucket knows its requests twice: in the order of their arrival and in that of their length. The head, which has waited
longest, always goes. From its place among the lengths the batch grows to either side, towards the neighbour that adds
fewer tokens, while rows, requests and tokens allow and padding is worth an execution saved:

        lengths waiting   3 3 4 9 9 10 [11] 12 40 41          head 11, then 12, 10, 9, 9 … not 3, not 40

Cost: logarithmic for a request that comes or goes, apart from moving pointers in one list; linear in the batch taken.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator

from guepard.batching.request_queue import RequestQueue
from guepard.core.padding import Padding
from guepard.core.reasons import ReleaseReason
from guepard.core.request import InferenceRequest

_Entry = tuple[int, int, InferenceRequest]  # length, serial number, request: the number keeps requests from comparing


class LengthBucket:
    """Requests that may share a batch, with what `RequestQueue` and the batcher ask of a deque."""

    __slots__ = ("_arrivals", "_entries", "_serial", "tokens")

    def __init__(self) -> None:
        self._arrivals: OrderedDict[InferenceRequest, _Entry] = OrderedDict()
        self._entries: list[_Entry] = []
        self._serial = 0
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[InferenceRequest]:
        return iter(self._arrivals)

    def __getitem__(self, index: int) -> InferenceRequest:
        """The head: nothing else is ever looked at."""
        assert index == 0
        return next(iter(self._arrivals))

    def append(self, request: InferenceRequest) -> None:
        self._serial += 1
        entry = (request.length, self._serial, request)
        self._arrivals[request] = entry
        insort(self._entries, entry)
        self.tokens += request.rows * request.length

    def remove(self, request: InferenceRequest) -> None:
        place = bisect_left(self._entries, self._arrivals.pop(request))
        del self._entries[place]
        self.tokens -= request.rows * request.length

    def take(
        self, padding: Padding, max_rows: int, max_requests: int
    ) -> tuple[list[InferenceRequest], int, ReleaseReason | None]:
        """The head and its neighbours in length, their rows, and what kept others from joining, unless the bounds."""
        entries = self._entries
        low = bisect_left(entries, self._arrivals[self[0]])
        high = low + 1
        window = _Window(padding, entries[low], max_rows)
        while high - low < max_requests:
            below = window.cost(entries[low - 1]) if low else None
            above = window.cost(entries[high]) if high < len(entries) else None
            if below is not None and (above is None or below <= above):
                low -= 1
                window.join(entries[low])
            elif above is not None:
                window.join(entries[high])
                high += 1
            else:
                break
        requests = [entry[2] for entry in entries[low:high]]
        del entries[low:high]
        for request in requests:
            del self._arrivals[request]
        self.tokens -= window.own_tokens
        return requests, window.rows, window.stopped_by


class _Window:
    """The batch that is being chosen."""

    __slots__ = ("_length", "_max_rows", "_padding", "own_tokens", "rows", "stopped_by")

    def __init__(self, padding: Padding, head: _Entry, max_rows: int) -> None:
        length, _, request = head
        self._padding = padding
        self._max_rows = max_rows
        self._length = padding.padded_length(length)
        self.rows = request.rows
        self.own_tokens = request.rows * length
        self.stopped_by: ReleaseReason | None = None

    def cost(self, entry: _Entry) -> int | None:
        """Tokens that `entry` would add to the batch beyond those it takes by itself; None if it cannot join."""
        length, _, request = entry
        rows = self.rows + request.rows
        if rows > self._max_rows:
            return None
        padding = self._padding
        alone = padding.padded_length(length)
        together = max(alone, self._length)
        if rows * together > padding.max_tokens:
            self.stopped_by = ReleaseReason.FULL
            return None
        cost = rows * together - self.rows * self._length - request.rows * alone
        if cost > padding.max_padding:
            self.stopped_by = self.stopped_by or ReleaseReason.SHAPE
            return None
        return cost

    def join(self, entry: _Entry) -> None:
        length, _, request = entry
        self.rows += request.rows
        self.own_tokens += request.rows * length
        self._length = max(self._length, self._padding.padded_length(length))


class LengthSortedQueue(RequestQueue):
    """`RequestQueue` for a model with padding. Sets the `length` of what comes in."""

    __slots__ = ("_padding", "stopped_by")

    def __init__(self, padding: Padding) -> None:
        super().__init__()
        self._padding = padding
        self.stopped_by: ReleaseReason | None = None

    def push(self, request: InferenceRequest) -> None:
        request.length = self._padding.length_of(request.arrays)
        bucket = self._buckets.get(request.batch_key)
        if bucket is None:
            bucket = self._buckets[request.batch_key] = LengthBucket()
        bucket.append(request)
        self.count += 1
        self.rows += request.rows

    def take(self, bucket: LengthBucket, max_rows: int, max_requests: int) -> tuple[list[InferenceRequest], int]:
        """The request of `bucket` that has waited longest, and neighbours in length that fit all bounds."""
        requests, rows, self.stopped_by = bucket.take(self._padding, max_rows, max_requests)
        self.count -= len(requests)
        self.rows -= rows
        if not bucket:
            del self._buckets[requests[0].batch_key]
        return requests, rows

    def fills_tokens(self, bucket: LengthBucket) -> bool:
        return bucket.tokens >= self._padding.max_tokens
