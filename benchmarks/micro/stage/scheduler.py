"""A loop that a case turns by hand, on the real clock."""

from collections.abc import Callable
from time import monotonic_ns

from guepard.core.scheduler import TimerHandle


class HandScheduler:
    """Runs what was asked for soon when told to. Timers are taken and never fire."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []
        self.now = monotonic_ns

    def call_soon(self, callback: Callable[[], None]) -> object:
        self._soon.append(callback)
        return callback

    def call_at(self, when: int, callback: Callable[[], None]) -> TimerHandle:
        return _TIMER

    def turn(self) -> None:
        callbacks, self._soon = self._soon, []
        for callback in callbacks:
            callback()


class _Timer:
    def cancel(self) -> None:
        pass


_TIMER = _Timer()
