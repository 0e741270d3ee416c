"""Threads on which requests are preprocessed, shared by all models."""

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from guepard.core.scheduler import Scheduler

log = logging.getLogger(__name__)

_LONG_NS = 1_000_000_000
"""A job that runs for so long holds no other up any more: another thread takes its place."""
_MOST_LONG = 16
"""As many threads may be held so at once. With more, what follows waits, and its deadline is its only end."""

_UNSETTLED_PER_THREAD = 2
_NICENESS = 5


class Job(Protocol):
    def run(self) -> None:
        """Do the work, on some thread. Raises nothing."""
        ...

    def done(self) -> None:
        """Called on the event loop's thread afterwards."""
        ...


class Lane:
    """The jobs of one model, in order. They wait while `is_paused`; lanes take turns. For the event loop's thread.

    They wait, too, when many are done and the event loop has had no time to hear of it, and so to pause the lane.
    """

    def __init__(self, pool: "StepPool") -> None:
        self._pool = pool
        self.waiting: deque[Job] = deque()
        self.is_paused = False
        self.unsettled = 0  # jobs that have run and of which the event loop does not know yet

    def put(self, job: Job) -> None:
        self._pool.put(self, job)

    def drop(self, job: Job) -> bool:
        """Take out a job that waits. False for one that runs or has run."""
        return self._pool.drop(self, job)

    def pause(self, is_paused: bool) -> None:
        if is_paused != self.is_paused:
            self._pool.pause(self, is_paused)

    def close(self) -> None:
        """No job follows, and those that wait are dropped."""
        self._pool.remove(self)


class StepPool:
    """Runs jobs on `count` threads, which are started when they are needed first.

    `post` runs a callback on the event loop. A job that hangs costs a thread, and nobody else anything.
    """

    def __init__(self, count: int, scheduler: Scheduler, post: Callable[..., object]) -> None:
        self.count = count
        self._scheduler = scheduler
        self._post = post
        self._ready = threading.Condition()
        # All below is guarded by it.
        self._lanes: deque[Lane] = deque()
        self._idle = 0
        self._threads = 0
        self._running: dict[threading.Thread, int] = {}  # since when, by the scheduler's clock
        self._long: set[threading.Thread] = set()
        self._is_closed = False
        self._is_watching = False

    def lane(self) -> Lane:
        lane = Lane(self)
        with self._ready:
            self._lanes.append(lane)
        return lane

    @property
    def threads(self) -> int:
        """How many there are now."""
        return self._threads

    def close(self) -> None:
        """Threads end once they have done what they do. Nothing is waited for."""
        with self._ready:
            self._is_closed = True
            self._lanes.clear()
            self._ready.notify_all()

    def put(self, lane: Lane, job: Job) -> None:
        with self._ready:
            lane.waiting.append(job)
            if not lane.is_paused:
                self._rouse()

    def drop(self, lane: Lane, job: Job) -> bool:
        with self._ready:
            try:
                lane.waiting.remove(job)
            except ValueError:
                return False
            return True

    def pause(self, lane: Lane, is_paused: bool) -> None:
        with self._ready:
            lane.is_paused = is_paused
            if not is_paused:
                self._rouse()

    def remove(self, lane: Lane) -> None:
        with self._ready:
            lane.waiting.clear()
            if lane in self._lanes:
                self._lanes.remove(lane)

    def _rouse(self) -> None:
        """See to it that as many threads as may be are at what waits."""
        waiting = sum([len(lane.waiting) for lane in self._lanes if self._is_open(lane)])
        if not waiting or self._is_closed:
            return
        self._ready.notify(waiting)
        missing = min(waiting - self._idle, self.count - (self._threads - len(self._long)))
        for _ in range(missing):
            self._start()
        if waiting > self._idle + max(0, missing):
            self._watch()

    def _start(self) -> None:
        self._threads += 1
        # A daemon: a step that hangs must not keep the process from ending.
        threading.Thread(target=self._work, name=f"steps-{self._threads}", daemon=True).start()

    def _watch(self) -> None:
        """See in a while whether what runs still does."""
        if not self._is_watching:
            self._is_watching = True
            self._scheduler.call_at(self._scheduler.now() + _LONG_NS, self._look)

    def _look(self) -> None:
        with self._ready:
            self._is_watching = False
            now = self._scheduler.now()
            for thread, since in self._running.items():
                if now - since >= _LONG_NS and len(self._long) < _MOST_LONG:
                    self._long.add(thread)
            self._rouse()

    def _work(self) -> None:
        thread = threading.current_thread()
        _stand_back()
        while (taken := self._next(thread)) is not None:
            lane, job = taken
            try:
                job.run()
            except BaseException:  # a dead thread would leave every later request waiting
                log.exception("a job of the threads for steps failed")
            with self._ready:
                lane.unsettled += 1
            try:
                self._post(self._settle, lane, job)
            except RuntimeError:  # the loop has closed, and nobody waits any more
                return
            del taken, job  # what was made is not kept alive by whoever waits for the next

    def _next(self, thread: threading.Thread) -> tuple[Lane, Job] | None:
        """The next job in turn, waiting for one; None when the thread is to end."""
        with self._ready:
            self._running.pop(thread, None)
            if thread in self._long:
                self._long.discard(thread)
            while True:
                # Those that were long are back: there is one too many.
                if self._is_closed or self._threads - len(self._long) > self.count:
                    self._threads -= 1
                    return None
                taken = self._take()
                if taken is not None:
                    self._running[thread] = self._scheduler.now()
                    return taken
                self._idle += 1
                self._ready.wait()
                self._idle -= 1

    def _take(self) -> tuple[Lane, Job] | None:
        for _ in range(len(self._lanes)):
            lane = self._lanes[0]
            self._lanes.rotate(-1)
            if lane.waiting and self._is_open(lane):
                return lane, lane.waiting.popleft()
        return None

    def _is_open(self, lane: Lane) -> bool:
        return not lane.is_paused and lane.unsettled < _UNSETTLED_PER_THREAD * self.count

    def _settle(self, lane: Lane, job: Job) -> None:
        """On the event loop."""
        with self._ready:
            lane.unsettled -= 1
            self._rouse()
        job.done()


def _stand_back() -> None:
    """Have the calling thread wait for a CPU a little longer than others: decoding is long, and the loop's turns short.

    A weight of a third, which starves nothing. Source: sched(7), "The nice value": Linux has one for each thread.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
