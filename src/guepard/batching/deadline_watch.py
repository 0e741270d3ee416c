"""One timer for the earliest deadline among many requests.

A timer per request would cost more than a small inference. Requests that finish are not taken out: when the timer
fires it looks at whoever is still alive, expires those that are late and sets itself for the next. With the default
time-outs that is one look in 30 seconds.
"""

from collections.abc import Callable, Iterable

from guepard.core.request import InferenceRequest
from guepard.core.scheduler import Scheduler, TimerHandle


class DeadlineWatch:
    """`alive` lists the requests that wait or execute; `expire` is called once for each that is late."""

    __slots__ = ("_alive", "_at", "_expire", "_scheduler", "_timer")

    def __init__(
        self,
        scheduler: Scheduler,
        alive: Callable[[], Iterable[InferenceRequest]],
        expire: Callable[[InferenceRequest], None],
    ) -> None:
        self._scheduler = scheduler
        self._alive = alive
        self._expire = expire
        self._timer: TimerHandle | None = None
        self._at = 0

    def watch(self, deadline: int) -> None:
        """Make sure that the timer fires no later than `deadline`."""
        if self._timer is None or deadline < self._at:
            self._set(deadline)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, deadline: int) -> None:
        self.stop()
        self._at = deadline
        self._timer = self._scheduler.call_at(deadline, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._scheduler.now()
        for request in [request for request in self._alive() if request.deadline <= now]:
            self._expire(request)
        earliest = min((request.deadline for request in self._alive()), default=None)
        if earliest is not None:
            self._set(earliest)
