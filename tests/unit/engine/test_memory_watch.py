"""Who is told to trim, and when."""

import asyncio
from contextlib import suppress

import pytest

from guepard.engine.data_plane import DataPlane
from guepard.engine.memory_watch import WORTHWHILE_BYTES, MemoryWatch, resident_bytes
from tests.unit.engine.stage import Stage


class Watched:
    """One served model, the memory that it seems to take, and a look at it for each call of `look`."""

    def __init__(self) -> None:
        self.stage = Stage(execution="inline")
        self.stage.model.trim = self._trim  # type: ignore[method-assign]
        self.resident = 10 * WORTHWHILE_BYTES
        self.trims = 0
        plane = DataPlane()
        plane.publish({"m": self.stage.served}, {})
        self.watch = MemoryWatch(plane, resident=lambda: self.resident)

    def _trim(self) -> None:
        self.trims += 1
        self.resident = WORTHWHILE_BYTES

    def infer(self, grows_by: int = 2 * WORTHWHILE_BYTES) -> None:
        self.stage.send(1)
        self.stage.clock.turn()
        self.resident += grows_by

    def look(self, times: int = 1) -> int:
        """How often the model has been told to trim by now."""
        for _ in range(times):
            asyncio.run(self.watch.look())
        return self.trims


def test_one_that_was_idle_between_two_looks_trims_once() -> None:
    watched = Watched()
    watched.infer()
    assert watched.look() == 0
    assert watched.look() == 1
    assert watched.look(5) == 1
    assert watched.watch.trimmed_bytes == 11 * WORTHWHILE_BYTES


def test_after_the_next_burst_again_and_never_in_it() -> None:
    watched = Watched()
    watched.look(3)
    for _ in range(5):
        watched.infer()
        assert watched.look() == 1
    assert watched.look(2) == 2


def test_one_that_executes_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    executing = 1
    monkeypatch.setattr(type(watched.stage.served), "executing", property(lambda _: executing))
    assert watched.look(5) == 0
    executing = 0
    assert watched.look() == 1


def test_little_is_not_worth_it() -> None:
    watched = Watched()
    watched.look(2)
    watched.infer(grows_by=WORTHWHILE_BYTES - 1)
    assert watched.look(5) == 1


def test_failures_are_activity_too() -> None:
    watched = Watched()
    watched.stage.executor.function = _fail  # type: ignore[assignment]
    watched.look(2)
    watched.infer()
    assert watched.look(2) == 2


def test_a_model_that_cannot_trim_is_logged_and_left(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    watched.stage.model.trim = _fail  # type: ignore[method-assign]
    watched.look(2)
    assert "model m could not trim its memory" in caplog.text


def test_it_looks_again_and_again() -> None:
    watched = Watched()
    watched.watch = MemoryWatch(watched.watch._data_plane, 0.0, lambda: watched.resident)

    async def story() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(watched.watch.run(), 0.2)

    asyncio.run(story())
    assert watched.trims == 1


def test_this_process_is_resident() -> None:
    assert resident_bytes() > 2**20


def _fail(*_: object) -> None:
    raise ValueError("no")
