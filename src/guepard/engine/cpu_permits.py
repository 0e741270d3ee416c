"""Who may compute now: as many threads as there are CPUs, over all models.

Each model has instances for the whole CPU budget, since it may be the only one that is busy. When several are, their
executions take turns instead of sharing the CPUs by the kernel's time slices: under a quota, threads beyond it would
burn it together and then all be stopped for the rest of its period. Only executions that take long take part. Short
ones would wait for the long ones of others, and use little.

An execution that hangs must not stop all others: what it has held for longer than it should is lent to whoever waits.
If it goes on all the same, more threads compute than there are CPUs until it ends.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from types import TracebackType

from guepard.core.model_config import SECOND
from guepard.engine.patience import Patience

log = logging.getLogger(__name__)

_LOOK_S = 1.0


class CpuPermits:
    """`count` permits, one for each thread that computes. Given in the order in which they were asked for.

    Nobody waits without end: whoever waits looks every `look_s` for permits that are overdue.
    """

    def __init__(self, count: int, clock: Callable[[], int] = monotonic_ns, look_s: float = _LOOK_S) -> None:
        self.count = count
        self.clock = clock
        self._look_s = look_s
        self._free = count
        self._lock = threading.Lock()
        self._holders: set[CpuShare] = set()
        self._waiting: deque[tuple[CpuShare, threading.Lock]] = deque()

    @property
    def waiting(self) -> int:
        """How many executions wait for their turn."""
        return len(self._waiting)

    def share(self, count: int, patience: Patience | None = None, name: str = "") -> "CpuShare":
        """What an execution of `count` threads holds while it runs; all there is at most.

        `patience` says how long it may hold them while others wait, and learns from it. `name`: of the model.
        """
        return CpuShare(self, min(count, self.count), patience or Patience(), name)

    def acquire(self, share: "CpuShare") -> None:
        """Wait for the permits of `share`. Whoever asks later does not come first, however few they want."""
        with self._lock:
            if self._can_give(share.count):
                self._give(share)
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append((share, turn))
        while not turn.acquire(timeout=self._look_s):
            self.reclaim()

    def try_acquire(self, share: "CpuShare") -> bool:
        """Take the permits of `share` if they are free and nobody waits; for those who can do with less."""
        with self._lock:
            if not self._can_give(share.count):
                return False
            self._give(share)
            return True

    def release(self, share: "CpuShare") -> bool:
        """`share` is not needed any more. False when its permits had been given to others meanwhile."""
        with self._lock:
            was_held = share in self._holders
            if was_held:
                self._take_back(share)
                self._serve()
        return was_held

    def reclaim(self) -> None:
        """Give to those who wait what others have held for too long."""
        with self._lock:
            self._take_overdue()
            self._serve()

    def _can_give(self, count: int) -> bool:
        if self._waiting:
            return False
        if self._free < count:
            self._take_overdue()
        return self._free >= count

    def _give(self, share: "CpuShare") -> None:
        self._free -= share.count
        share.since = self.clock()
        self._holders.add(share)

    def _take_back(self, share: "CpuShare") -> None:
        self._holders.remove(share)
        self._free += share.count

    def _take_overdue(self) -> None:
        now = self.clock()
        for share in [share for share in self._holders if now - share.since > share.patience.ns]:
            self._take_back(share)
            log.warning(
                "an execution of model %s has not ended after %.3g s; others do not wait for its CPUs any more",
                share.name,
                (now - share.since) / SECOND,
            )

    def _serve(self) -> None:
        while self._waiting and self._waiting[0][0].count <= self._free:
            share, turn = self._waiting.popleft()
            self._give(share)
            turn.release()


class CpuShare:
    """Permits that one instance holds for the length of a `with` block, or from `try_enter` to `leave`."""

    __slots__ = ("_permits", "count", "name", "patience", "since")

    def __init__(self, permits: CpuPermits, count: int, patience: Patience, name: str) -> None:
        self.count = count
        self.patience = patience
        self.name = name
        self.since = 0  # when it was given, by the clock of the permits
        self._permits = permits

    def try_enter(self) -> bool:
        """As entering a `with` block, if that is possible without waiting."""
        return self._permits.try_acquire(self)

    def leave(self) -> None:
        permits = self._permits
        duration_ns, bound_ns = permits.clock() - self.since, self.patience.ns
        # One that was too slow makes us more patient, but not without end.
        self.patience.remember(duration_ns if permits.release(self) else min(duration_ns, bound_ns))

    def __enter__(self) -> None:
        self._permits.acquire(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()
