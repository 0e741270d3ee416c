"""Gives memory back that a burst of traffic left behind, once the models that had it have been idle for a while.

Engines keep what they needed once, so that they need not ask again: right under load, and gigabytes for nothing after
it. A model that executed nothing between two looks is told to trim, and then the heap is. Models that are busy go on
meanwhile.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from guepard.engine.background import in_thread
from guepard.engine.data_plane import DataPlane
from guepard.engine.served_model import ServedModel
from guepard.limits.heap import trim_heap

log = logging.getLogger(__name__)

PERIOD_S = 5.0

# Less than this is not worth the fresh pages that the next execution would have to pay for.
WORTHWHILE_BYTES = 32 * 2**20


def resident_bytes() -> int:
    """Memory of this process that is resident now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """`trimmed_bytes` is what trims have given back since the start, as far as they made the process smaller."""

    def __init__(
        self, data_plane: DataPlane, period_s: float = PERIOD_S, resident: Callable[[], int] = resident_bytes
    ) -> None:
        self.trimmed_bytes = 0
        self._data_plane = data_plane
        self._period_s = period_s
        self._resident = resident
        self._kept = 0  # resident after the last trim
        self._activities: dict[ServedModel, object] = {}  # as they were at the last look
        self._settled: set[ServedModel] = set()  # idle, and trimmed since they became so

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            await self.look()

    async def look(self) -> None:
        """Trim what has been idle since the last look."""
        activities = {served: served.activity() for served in self._data_plane.served().values()}
        idle = {
            served
            for served, activity in activities.items()
            if self._activities.get(served) == activity and not served.executing
        }
        due = idle - self._settled
        self._activities, self._settled = activities, idle
        if due and self._resident() - self._kept >= WORTHWHILE_BYTES:
            await in_thread("trim-memory", lambda: self._trim(list(due)))

    def _trim(self, idle: Sequence[ServedModel]) -> None:
        before = self._resident()
        for served in idle:
            try:
                served.trim()
            except Exception:
                log.exception("model %s could not trim its memory", served.config.name)
        trim_heap()
        self._kept = self._resident()
        self.trimmed_bytes += max(0, before - self._kept)
        log.debug("trimmed memory from %d to %d MiB", before >> 20, self._kept >> 20)
