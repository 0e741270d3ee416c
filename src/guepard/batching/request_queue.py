"""Requests that wait, in buckets of those that may share a batch.

A bucket holds requests of one `batch_key` in the order of their arrival; the bucket whose head has waited longest goes
first. So a request is never held up by an incompatible one, and no bucket starves. Nearly every model has one bucket.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from guepard.core.reasons import ReleaseReason
from guepard.core.request import InferenceRequest

Bucket = Any  # here a deque of requests; a queue that chooses otherwise keeps its own kind


class RequestQueue:
    """`count` requests wait, with `rows` rows in all. Both are for reading.

    `stopped_by`: what ended the batch that was taken last, where that was neither a bound of `take` nor the bucket's
    end.
    """

    __slots__ = ("_buckets", "count", "rows")

    stopped_by: ReleaseReason | None = None

    def __init__(self) -> None:
        self._buckets: dict[object, Bucket] = {}
        self.count = 0
        self.rows = 0

    def __iter__(self) -> Iterator[InferenceRequest]:
        for bucket in self._buckets.values():
            yield from bucket

    def push(self, request: InferenceRequest) -> None:
        try:
            self._buckets[request.batch_key].append(request)
        except KeyError:
            self._buckets[request.batch_key] = deque((request,))
        self.count += 1
        self.rows += request.rows

    def remove(self, request: InferenceRequest) -> None:
        """Take out one request that will not execute. Cost: linear in its bucket."""
        bucket = self._buckets[request.batch_key]
        bucket.remove(request)
        self._forget(bucket, request)

    def oldest_bucket(self) -> Bucket:
        """The bucket whose first request has waited longest. Something must wait."""
        buckets = self._buckets.values()
        return next(iter(buckets)) if len(buckets) == 1 else min(buckets, key=_head_queue_start)

    def buckets_by_age(self) -> list[Bucket]:
        return sorted(self._buckets.values(), key=_head_queue_start)

    def take(self, bucket: Bucket, max_rows: int, max_requests: int) -> tuple[list[InferenceRequest], int]:
        """The first requests of `bucket` that fit both bounds, and their rows. The very first always fits."""
        if self.rows <= max_rows and self.count <= max_requests and len(self._buckets) == 1:
            requests, rows = list(bucket), self.rows
            self._buckets.clear()
            self.count = self.rows = 0
            return requests, rows
        requests = [bucket.popleft()]
        rows = requests[0].rows
        while bucket and rows + bucket[0].rows <= max_rows and len(requests) < max_requests:
            request = bucket.popleft()
            requests.append(request)
            rows += request.rows
        self.count -= len(requests)
        self.rows -= rows
        if not bucket:
            del self._buckets[requests[0].batch_key]
        return requests, rows

    def fills_tokens(self, bucket: Bucket) -> bool:
        """Whether a bound on tokens keeps `bucket` from becoming a larger batch."""
        return False

    def _forget(self, bucket: Bucket, request: InferenceRequest) -> None:
        self.count -= 1
        self.rows -= request.rows
        if not bucket:
            del self._buckets[request.batch_key]


def _head_queue_start(bucket: Bucket) -> int:
    return bucket[0].queue_start  # type: ignore[no-any-return]
