"""A Scheduler that a test turns by hand."""

from collections.abc import Callable
from itertools import count


class ManualTimer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualScheduler:
    """Time stands still until `advance`. Callbacks of one turn run in `turn`."""

    def __init__(self, start: int = 1_000_000_000) -> None:
        self._now = start
        self._order = count()
        self._soon: list[Callable[[], None]] = []
        self._timers: list[tuple[int, int, Callable[[], None], ManualTimer]] = []

    def now(self) -> int:
        return self._now

    def call_soon(self, callback: Callable[[], None]) -> object:
        self._soon.append(callback)
        return callback

    def call_at(self, when: int, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer()
        self._timers.append((when, next(self._order), callback, timer))
        return timer

    def turn(self) -> None:
        """Run what was asked for soon, once."""
        callbacks, self._soon = self._soon, []
        for callback in callbacks:
            callback()

    def advance(self, duration: int) -> None:
        """Let `duration` nanoseconds pass, firing each timer at its own time."""
        end = self._now + duration
        while True:
            self.turn()
            due = min((timer for timer in self._timers if not timer[3].cancelled and timer[0] <= end), default=None)
            if due is None:
                break
            self._timers.remove(due)
            self._now = max(self._now, due[0])
            due[2]()
        self._now = end
        self.turn()

    @property
    def armed(self) -> int:
        """How many timers are set."""
        return sum(not timer[3].cancelled for timer in self._timers)
