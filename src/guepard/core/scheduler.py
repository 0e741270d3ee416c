"""The three things that mechanisms ask of an event loop, so that tests can drive them by a manual clock."""

from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    def now(self) -> int:
        """Nanoseconds of the monotonic clock."""
        ...

    def call_soon(self, callback: Callable[[], None]) -> object:
        """Run `callback` after everything that this turn of the loop still has to do."""
        ...

    def call_at(self, when: int, callback: Callable[[], None]) -> TimerHandle:
        """Run `callback` at `when`, or up to a timer's resolution (1 ms) around it."""
        ...
