"""Who may compute now: as many threads as there are CPUs, over all models.

Each model has instances for the whole CPU budget, since it may be the only one that is busy. When several are, their
executions take turns instead of sharing the CPUs by the kernel's time slices: under a quota, threads beyond it would
burn it together and then all be stopped for the rest of its period. Only executions that take long take part. Short
ones would wait for the long ones of others, and use little.
"""

import threading
from collections import deque
from types import TracebackType


class CpuPermits:
    """`count` permits, one for each thread that computes. Given in the order in which they were asked for."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, threading.Lock]] = deque()

    @property
    def waiting(self) -> int:
        """How many executions wait for their turn."""
        return len(self._waiting)

    def share(self, count: int) -> "CpuShare":
        """What an execution of `count` threads holds while it runs; all there is at most."""
        return CpuShare(self, min(count, self.count))

    def acquire(self, count: int) -> None:
        """Wait for `count` permits. Whoever asks later does not come first, however few they want."""
        with self._lock:
            if not self._waiting and self._free >= count:
                self._free -= count
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append((count, turn))
        turn.acquire()

    def try_acquire(self, count: int) -> bool:
        """Take `count` permits if they are free and nobody waits; for those who can do with less."""
        with self._lock:
            if self._waiting or self._free < count:
                return False
            self._free -= count
            return True

    def release(self, count: int) -> None:
        with self._lock:
            self._free += count
            while self._waiting and self._waiting[0][0] <= self._free:
                count, turn = self._waiting.popleft()
                self._free -= count
                turn.release()


class CpuShare:
    """Permits held for the length of a `with` block. Any number of threads may use one object."""

    __slots__ = ("_count", "_permits")

    def __init__(self, permits: CpuPermits, count: int) -> None:
        self._permits = permits
        self._count = count

    def __enter__(self) -> None:
        self._permits.acquire(self._count)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._permits.release(self._count)
