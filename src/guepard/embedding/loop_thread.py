"""An event loop on a thread of its own, so that it does not matter which thread or loop the program is on."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

Result = TypeVar("Result")

SIGNAL_LATENCY_S = 1.0
"""How long a wait goes on when a Ctrl-C comes in the moment before it begins."""


class Ended(Exception):
    """The loop takes no more work: it has been ended, or belongs to the process that this one was forked from."""


class LoopThread:
    """A running event loop. The thread is a daemon: whoever owns it calls `end`, at exit at the latest.

    A fork copies the object and not the thread. In the child `post` and `run` raise, and `end` does nothing.
    """

    def __init__(self, name: str) -> None:
        self._loop = uvloop.new_event_loop()
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._is_ending = False
        self._last: Callable[[], Coroutine[Any, Any, object]] | None = None
        self._ending = asyncio.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether the caller is on the loop's own thread, and must not wait for it."""
        return threading.current_thread() is self._thread

    @property
    def has_ended(self) -> bool:
        return self._is_ending or os.getpid() != self._pid

    def post(self, callback: Callable[..., object], *arguments: object) -> None:
        """Have the loop call `callback` soon. What was taken is called, also when the loop ends. Raises: Ended."""
        if os.getpid() != self._pid:
            raise Ended
        with self._lock:
            if self._is_ending:
                raise Ended
            self._loop.call_soon_threadsafe(callback, *arguments)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What `work` returns or raises, run on the loop. An interrupt of the wait cancels it first. Raises: Ended."""
        assert not self.is_here
        tasks: list[asyncio.Task[Result]] = []
        done = threading.Event()

        def begin() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda _: done.set())

        try:
            self.post(begin)
        except Ended:
            work.close()
            raise
        try:
            _wait(done)
        except BaseException:
            self.post(lambda: tasks[0].cancel())
            _wait(done)
            raise
        return tasks[0].result()

    def end(self, last: Callable[[], Coroutine[Any, Any, object]], wait: bool = True) -> None:
        """Run `last` as the last thing on the loop, then end the thread. Later calls only wait for that."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._is_ending:
                self._is_ending = True
                self._last = last
                self._loop.call_soon_threadsafe(self._ending.set)
        if wait and not self.is_here:
            _wait(self._ended)
            self._thread.join()

    def wait(self) -> None:
        """Until the thread has ended."""
        _wait(self._ended)

    def _work(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._live())
        finally:
            self._ended.set()

    async def _live(self) -> None:
        await self._ending.wait()
        if self._last is not None:
            await self._last()


def _wait(event: threading.Event) -> None:
    while not event.wait(SIGNAL_LATENCY_S):
        pass
