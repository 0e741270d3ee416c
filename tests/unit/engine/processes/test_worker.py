"""What a process does beside its batches."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from guepard.core.errors import Cancelled
from guepard.core.model_config import SECOND
from guepard.engine.processes.carrier import Carrier
from guepard.engine.processes.worker import _Control, _Worker
from guepard.memory import slab_pool
from guepard.memory.heap_arena import HeapArena
from guepard.memory.slab_pool import SlabPool
from guepard.transport.channel import ChannelClosed
from guepard.transport.frames import Execute, Failed, Place, RequestNote, Result, Terminate, Trim
from tests.unit.engine.fake_executors import FakeExecutor, FakeModel


class Ended(Exception):
    """In place of the process."""


class Frames:
    """A channel that brings these and then is closed."""

    def __init__(self, frames: Sequence[Any]) -> None:
        self._left = list(frames)
        self.sent: list[Any] = []

    def receive(self) -> Any:
        if not self._left:
            raise ChannelClosed
        return self._left.pop(0)

    def send(self, frame: Any) -> None:
        self.sent.append(frame)


def test_outputs_that_lie_idle_go_back_when_the_server_asks_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(slab_pool, "monotonic_ns", lambda: now[0])
    outputs = SlabPool(HeapArena(), limit_bytes=2**20)
    held, _ = outputs.lease(100_000), outputs.lease(4_096)
    del _
    for now[0], count, free_bytes in ((29 * SECOND, 1, 4_096), (31 * SECOND, 0, 4_096), (31 * SECOND, 1, 0)):
        channel: Any = Frames([Trim()] * count)
        control = _Control(channel)
        control.model, control.outputs = FakeModel(FakeExecutor()), outputs
        with pytest.raises(Ended):
            control.run()
        assert outputs.statistics().free_bytes == free_bytes
    assert held.nbytes == 100_000


def batch(number: int, value: float) -> Execute:
    data = np.array([[value]], np.float32).tobytes()
    return Execute((Place("FP32", (1, 1), -1, 4, data),), (RequestNote(1, 2**62),), -1, (), False, number)


class Terminated:
    """A worker whose executions meet the orders that the test says, by the value of their batch."""

    def __init__(self, orders: dict[float, Sequence[int]]) -> None:
        self._orders = orders
        self._executor = FakeExecutor(self._run)
        self._executor.can_terminate = True
        self.worker = _Worker(FakeModel(self._executor), self._executor)

    def _run(self, array: Any) -> Any:
        for number in self._orders[float(array[0, 0])]:
            self.order(number)
        return array * 2

    def order(self, number: int) -> None:
        channel: Any = Frames([Terminate(number)])
        control = _Control(channel)
        control.worker = self.worker
        with pytest.raises(Ended):
            control.run()

    def serve(self, *batches: Execute) -> list[str]:
        channel: Any = Frames(batches)
        inputs: Any = None
        arena = HeapArena()
        with pytest.raises(ChannelClosed):
            self.worker.serve(channel, inputs, Carrier(arena, SlabPool(arena, limit_bytes=2**20)))  # type: ignore[arg-type]
        assert all(isinstance(frame, Result | Failed) for frame in channel.sent)
        return [frame.code if isinstance(frame, Failed) else "result" for frame in channel.sent]


@pytest.fixture(autouse=True)
def _end(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(self: _Control) -> None:
        raise Ended

    monkeypatch.setattr(_Control, "_wait_for_the_end", end)


def test_the_batch_that_nobody_waits_for_is_ended_and_no_other() -> None:
    terminated = Terminated({1.0: [1], 2.0: [1], 3.0: [], 4.0: [2, 5, 4]})
    numbered = [batch(number, number) for number in (1, 2, 3, 4)]
    assert terminated.serve(*numbered) == [Cancelled.code.value, "result", "result", Cancelled.code.value]


def test_an_order_between_two_batches_ends_neither() -> None:
    terminated = Terminated({1.0: [], 2.0: []})
    assert terminated.serve(batch(1, 1.0)) == ["result"]
    for number in (1, 2):
        terminated.order(number)
    assert terminated.serve(batch(2, 2.0)) == ["result"]
    assert terminated._executor.terminations == 0
