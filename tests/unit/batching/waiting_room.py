"""A batcher on a clock that only the test moves, and every batch it let go."""

from typing import Any, NamedTuple

from guepard.batching.dynamic_batcher import Batch, DynamicBatcher
from guepard.core.errors import QueueFull
from guepard.core.model_config import MILLISECOND, DynamicBatching
from guepard.core.padding import Padding
from guepard.core.reasons import ReleaseReason
from guepard.core.request import InferenceRequest, RequestState
from guepard.testing.manual_scheduler import ManualScheduler
from tests.unit.batching.arrivals import arriving


class Release(NamedTuple):
    at_ms: float
    batch: Batch

    @property
    def rows(self) -> int:
        return self.batch.rows

    @property
    def reason(self) -> ReleaseReason:
        return self.batch.reason

    @property
    def requests(self) -> list[InferenceRequest]:
        return self.batch.requests


class WaitingRoom:
    """Batches stay with their instance until `free`, unless `inline`: then they are done when they are released."""

    def __init__(
        self,
        *,
        max_batch_size: int = 8,
        instances: int = 1,
        max_concurrency: int = 4_096,
        delay_ms: int = 0,
        preferred: tuple[int, ...] = (),
        max_queue_size: int = 1_000,
        inline: bool = False,
        padding: Padding | None = None,
        wide_rows: int = 0,
    ) -> None:
        self.clock = ManualScheduler()
        self.released: list[Release] = []
        self.running: list[Batch] = []
        self._started = self.clock.now()
        self._inline = inline
        self.batcher = DynamicBatcher(
            max_batch_size=max_batch_size,
            batching=DynamicBatching(delay_ms * MILLISECOND, preferred, max_queue_size),
            instances=instances,
            max_concurrency=max_concurrency,
            scheduler=self.clock,
            release=self._release,
            padding=padding,
            wide_rows=wide_rows,
        )

    def arrive(self, count: int = 1, **fields: Any) -> list[InferenceRequest]:
        """`count` requests at this moment. Raises: QueueFull, after those before it were taken in."""
        requests = [arriving(**fields) for _ in range(count)]
        for request in requests:
            self.batcher.enqueue(request)
        return requests

    def turn(self) -> None:
        self.clock.turn()

    def advance_ms(self, duration: float) -> None:
        self.clock.advance(int(duration * MILLISECOND))

    def free(self, busy_ms: float = 0) -> None:
        """The instance that has been busy for longest becomes free."""
        self.batcher.instance_freed(self.running.pop(0), int(busy_ms * MILLISECOND))

    def accepted_of(self, count: int, **fields: Any) -> int:
        """How many of `count` requests that arrive in one turn are taken in."""
        accepted = 0
        for _ in range(count):
            request = arriving(**fields)
            try:
                self.batcher.enqueue(request)
            except QueueFull:
                assert request.state is RequestState.FAILED_ENQUEUE
            else:
                accepted += 1
        return accepted

    def expect_lone_requests(self) -> None:
        """Bring single requests until the batcher lets them go at once, then forget them."""
        for _ in range(4):
            self.arrive()
            self.turn()
            if self.running:
                self.free()
        self.released.clear()

    @property
    def sizes(self) -> list[int]:
        return [release.rows for release in self.released]

    @property
    def reasons(self) -> list[ReleaseReason]:
        return [release.reason for release in self.released]

    @property
    def widths(self) -> list[bool]:
        """Of each batch, whether it may have all CPUs."""
        return [release.batch.wide for release in self.released]

    def _release(self, batch: Batch) -> None:
        self.released.append(Release((self.clock.now() - self._started) / MILLISECOND, batch))
        if self._inline:
            self.batcher.instance_freed(batch, 0)
        else:
            self.running.append(batch)
