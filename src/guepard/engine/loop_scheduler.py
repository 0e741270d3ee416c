"""The Scheduler of a running event loop."""

import asyncio
from collections.abc import Callable
from time import monotonic_ns

from guepard.core.scheduler import TimerHandle


class LoopScheduler:
    """Resolution: uvloop's timers count whole milliseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.call_soon = loop.call_soon
        self.now = monotonic_ns

    def call_at(self, when: int, callback: Callable[[], None]) -> TimerHandle:
        return self._loop.call_later(max(0.0, (when - monotonic_ns()) / 1e9), callback)
