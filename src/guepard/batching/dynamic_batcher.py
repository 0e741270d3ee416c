"""When an instance is free, what goes.

The batch is decided late: while instances are busy the queue grows, and an instance that becomes free takes what is
there. When one is idle already there is no timer either: requests that one turn of the event loop decoded leave
together, through one `call_soon`, or at once while turns bring single requests (LoneSense).
`max_queue_delay_ns` above 0 has Triton's meaning instead: an idle instance waits until the oldest request is that old,
unless a full batch or one of a preferred size is there first.
"""

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import NamedTuple

from guepard.batching.length_sorted import LengthSortedQueue
from guepard.batching.lone_sense import LoneSense
from guepard.batching.request_queue import RequestQueue
from guepard.core.errors import QueueFull
from guepard.core.model_config import MILLISECOND, DynamicBatching
from guepard.core.padding import Padding
from guepard.core.reasons import ReleaseReason
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.scheduler import Scheduler, TimerHandle

_PENDING = RequestState.PENDING


class Batch(NamedTuple):
    requests: list[InferenceRequest]
    rows: int
    reason: ReleaseReason
    wide: bool = False


class DynamicBatcher:
    """The waiting room of one model version.

    `release` is handed each batch that leaves; the batcher counts the instances it has promised that way, and
    `instance_freed` gives one back. Everything runs on the event loop's thread.

    A batch of at most `wide_rows` that has the model to itself, with nothing behind it, may have all CPUs (`wide`).
    """

    def __init__(
        self,
        *,
        max_batch_size: int,
        batching: DynamicBatching,
        instances: int,
        max_concurrency: int,
        scheduler: Scheduler,
        release: Callable[[Batch], None],
        padding: Padding | None = None,
        wide_rows: int = 0,
    ) -> None:
        self.queue = RequestQueue() if padding is None else LengthSortedQueue(padding)
        self.idle = instances
        self._limit = max(1, max_batch_size)
        self._wide_rows = wide_rows
        self._instances = instances
        self._sharers = instances
        self._delay = batching.max_queue_delay_ns if max_batch_size > 1 else 0
        # Whether a request may be released without having been in the queue, where lengths and delays are looked after.
        self._passes = padding is None and not self._delay
        self._preferred = frozenset(batching.preferred_batch_size)
        self._max_queue_size = batching.max_queue_size
        self._max_concurrency = max_concurrency
        self._executing = 0
        self._scheduler = scheduler
        self._now = scheduler.now
        self._release = release
        self._turn_pending = False
        self._dispatching = False
        self._sense = LoneSense()
        self._timer: TimerHandle | None = None
        self._timer_at = 0
        self._row_ns = 0.0

    def enqueue(self, request: InferenceRequest, parts: list[InferenceRequest] | None = None) -> None:
        """Take a request in; it may have executed by the time this returns.

        `parts`: what a request larger than a batch was split into; they wait in its stead, admitted together.
        Raises: QueueFull, with the predicted wait; the request is then FAILED_ENQUEUE.
        """
        queue = self.queue
        if queue.count >= self._max_queue_size and queue.count >= self._max_queue_size + self._room():
            request.state = RequestState.FAILED_ENQUEUE
            raise QueueFull(
                f"the queue is full ({self._max_queue_size} requests wait); try again later",
                retry_after_ms=self.predicted_wait_ms(),
            )
        now = self._now()
        request.state = _PENDING
        request.queue_start = now
        if parts is None:
            if self.idle and self._passes and not queue.count and self._may_pass(request.rows):
                self._release_alone(request)
                return
            queue.push(request)
        else:
            for part in parts:
                part.state = _PENDING
                part.queue_start = now
                queue.push(part)
        if not self.idle:
            return
        if queue.rows >= self._limit:
            if self._limit > 1:
                self._sense.turn_was_full()
            self.dispatch()
        elif not self._turn_pending:
            if self._sense.goes_at_once():
                self.dispatch()
            else:
                self._turn_pending = True
                self._scheduler.call_soon(self._turn_ended)

    def withdraw(self, request: InferenceRequest) -> None:
        """Take out a request that waits and will not be executed any more."""
        self.queue.remove(request)

    def instance_freed(self, batch: Batch, busy_ns: int) -> None:
        """The instance that `batch` was released to is free again, after `busy_ns`."""
        self.idle += 1
        self.batch_ended(batch, busy_ns)
        if self.queue.count:
            self.dispatch()

    def batch_ended(self, batch: Batch, busy_ns: int) -> None:
        """`batch` is over, and its instance not free."""
        self._executing -= len(batch.requests)
        if batch.rows:
            self._row_ns += 0.125 * (busy_ns / batch.rows - self._row_ns)

    def instance_lost(self) -> None:
        """An idle instance is none any more."""
        self.idle -= 1

    def instance_mended(self) -> None:
        """One that was lost is idle again."""
        self.idle += 1
        if self.queue.count:
            self.dispatch()

    def dispatch(self) -> None:
        """Release batches while an instance is idle and one is due. Safe to call from within `release`."""
        if self._dispatching:
            return
        self._dispatching = True
        # An instance takes its share and leaves theirs to those that are busy: one that took everything would be at it
        # for long, while the others run what trickles in behind.
        self._sharers = self._instances
        try:
            while self.idle and self.queue.count and (batch := self._next_batch()) is not None:
                self.idle -= 1
                self._release(batch)
        finally:
            self._dispatching = False

    def predicted_wait_ms(self) -> int:
        """How long the queue as it stands will take, by the recent time per row; at least 1."""
        wait_ns = self.queue.rows * self._row_ns / self._instances
        return max(1, round(wait_ns / MILLISECOND))

    def _turn_ended(self) -> None:
        self._turn_pending = False
        self._sense.turn_ended(self.queue.count)
        self.dispatch()

    def _may_pass(self, rows: int) -> bool:
        """Whether a request of so many rows, for which an instance is idle and nothing waits, goes past the queue."""
        if self._dispatching or self._turn_pending or self._executing >= self._max_concurrency:
            return False
        if rows < self._limit:
            return self._sense.is_sure and self._sense.goes_at_once()
        if self._limit > 1:
            self._sense.turn_was_full()
        return True

    def _release_alone(self, request: InferenceRequest) -> None:
        """What `dispatch` would do when nothing but `request` waits, without the queue."""
        rows = request.rows
        reason = ReleaseReason.FULL if rows >= self._limit else ReleaseReason.IDLE
        wide = rows <= self._wide_rows and self.idle == self._instances
        self._executing += 1
        self.idle -= 1
        self._dispatching = True
        try:
            self._release(Batch([request], rows, reason, wide))
        finally:
            self._dispatching = False
        if self.queue.count:
            self.dispatch()

    def _room(self) -> int:
        """How many of those that wait an idle instance may take at once, and which therefore do not fill the queue."""
        return min(self.idle * self._limit, self._max_concurrency - self._executing)

    def _next_batch(self) -> Batch | None:
        room = self._max_concurrency - self._executing
        if room <= 0:
            return None
        batch = self._due_batch(room) if self._delay else self._ready_batch(room)
        if batch is not None:
            self._executing += len(batch.requests)
            if batch.rows <= self._wide_rows and self.idle == self._instances and not self.queue.count:
                return batch._replace(wide=True)
        return batch

    def _ready_batch(self, room: int) -> Batch:
        """Without a delay whatever waits is due, spread over the instances."""
        queue = self.queue
        bucket = queue.oldest_bucket()
        limit = self._limit
        if self._sharers > 1:
            limit = min(limit, -(-queue.rows // self._sharers) or 1)
            self._sharers -= 1
        requests, rows = queue.take(bucket, limit, room)
        if rows >= self._limit:
            reason = ReleaseReason.FULL
        else:
            reason = queue.stopped_by or (ReleaseReason.IDLE if bucket or not queue.count else ReleaseReason.SHAPE)
        return Batch(requests, rows, reason)

    def _due_batch(self, room: int) -> Batch | None:
        """Under a delay the oldest bucket that is full, at a preferred size or due; else the timer is set for it."""
        now = self._now()
        for bucket in self.queue.buckets_by_age():
            rows = sum([request.rows for request in bucket])
            if rows >= self._limit:
                limit, reason = self._limit, ReleaseReason.FULL
            elif preferred := self._preferred_rows(bucket):
                limit, reason = preferred, ReleaseReason.PREFERRED
            elif now >= bucket[0].queue_start + self._delay:
                limit, reason = self._limit, ReleaseReason.DELAY
            elif self.queue.fills_tokens(bucket):
                limit, reason = self._limit, ReleaseReason.FULL
            else:
                continue
            requests, rows = self.queue.take(bucket, limit, room)
            return Batch(requests, rows, reason)
        self._set_timer(self.queue.oldest_bucket()[0].queue_start + self._delay)
        return None

    def _preferred_rows(self, bucket: Iterable[InferenceRequest]) -> int:
        """The largest preferred size that the first requests of `bucket` make exactly, 0 for none."""
        sizes = accumulate([request.rows for request in bucket])
        return max([rows for rows in sizes if rows in self._preferred], default=0)

    def _set_timer(self, due: int) -> None:
        if self._timer is not None:
            if self._timer_at <= due:
                return
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._scheduler.call_at(due, self._delay_over)

    def _delay_over(self) -> None:
        self._timer = None
        self.dispatch()
