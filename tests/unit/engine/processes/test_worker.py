"""What a process does beside its batches."""

from typing import Any

import pytest

from guepard.core.model_config import SECOND
from guepard.engine.processes.worker import _Control
from guepard.memory import slab_pool
from guepard.memory.heap_arena import HeapArena
from guepard.memory.slab_pool import SlabPool
from guepard.transport.channel import ChannelClosed
from guepard.transport.frames import Trim
from tests.unit.engine.fake_executors import FakeExecutor, FakeModel


class Ended(Exception):
    """In place of the process."""


class Questions:
    """A channel that brings so many frames and then is closed."""

    def __init__(self, count: int) -> None:
        self._left = count

    def receive(self) -> Trim:
        if not self._left:
            raise ChannelClosed
        self._left -= 1
        return Trim()


def test_outputs_that_lie_idle_go_back_when_the_server_asks_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(self: _Control) -> None:
        raise Ended

    monkeypatch.setattr(_Control, "_wait_for_the_end", end)
    now = [0]
    monkeypatch.setattr(slab_pool, "monotonic_ns", lambda: now[0])
    outputs = SlabPool(HeapArena(), limit_bytes=2**20)
    held, _ = outputs.lease(100_000), outputs.lease(4_096)
    del _
    for now[0], count, free_bytes in ((29 * SECOND, 1, 4_096), (31 * SECOND, 0, 4_096), (31 * SECOND, 1, 0)):
        channel: Any = Questions(count)
        control = _Control(channel)
        control.model, control.outputs = FakeModel(FakeExecutor()), outputs
        with pytest.raises(Ended):
            control.run()
        assert outputs.statistics().free_bytes == free_bytes
    assert held.nbytes == 100_000
