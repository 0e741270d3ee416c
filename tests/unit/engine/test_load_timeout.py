"""Loads that do not end."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from guepard.core.model_config import InstanceGroup, ModelPolicy
from guepard.core.states import ModelReadyState
from guepard.engine import control_plane as module
from guepard.engine.background import in_thread
from guepard.engine.control_plane import ControlPlane
from guepard.engine.data_plane import DataPlane
from guepard.engine.loop_scheduler import LoopScheduler
from guepard.engine.model_repository import ModelDefinition, ModelRepository
from guepard.engine.resources import Resources

MILLISECOND = 1_000_000

HANGS_WHEN_LOADED = """
import time
import guepard

class Slow(guepard.Model):
    inputs = [guepard.Tensor("x", "FP32", [1])]
    outputs = [guepard.Tensor("y", "FP32", [1])]

    def load(self, ctx):
        time.sleep(1_000)

    def predict(self, inputs, ctx):
        return {"y": inputs["x"]}
"""


async def start(*definitions: ModelDefinition) -> ControlPlane:
    plane = ControlPlane(
        ModelRepository(definitions, [], ModelDefinition("template", Path(), ModelPolicy())),
        DataPlane(),
        LoopScheduler(asyncio.get_running_loop()),
        resources=Resources(1, 2**30),
        drain_timeout_s=1,
        frozen=True,
        on_change=lambda *_: None,
    )
    await plane.start(None)
    return plane


def definition(name: str, path: Path, load_timeout_ms: int, **group: Any) -> ModelDefinition:
    policy = ModelPolicy(load_timeout_ns=load_timeout_ms * MILLISECOND, instance_group=InstanceGroup(**group))
    return ModelDefinition(name, path, policy, trusted=True)


def test_it_is_given_up_with_a_reason_and_what_comes_of_it_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_LOAD_GRACE_S", 0)
    go_on, closed = threading.Event(), threading.Event()

    def hang(*_: object) -> Any:
        assert go_on.wait(30)
        return "loaded at last"

    monkeypatch.setattr(module, "load_version", hang)
    monkeypatch.setattr(module, "close_version", lambda loaded: closed.set())

    async def run() -> None:
        plane = await start(definition("m", tmp_path / "model.onnx", 20))
        entry = plane.entry("m")
        assert entry is not None
        assert entry.state is ModelReadyState.UNAVAILABLE
        assert entry.reason == "loading did not end within 0.02 s; raise load_timeout, or name another engine"
        go_on.set()
        assert await asyncio.to_thread(closed.wait, 30)

    asyncio.run(run())
    assert "model m: the thread that loads it goes on" in caplog.text


def test_a_process_that_hangs_while_it_loads_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "slow.py"
    path.write_text(HANGS_WHEN_LOADED)
    monkeypatch.setattr(module, "_LOAD_GRACE_S", 30)

    async def run() -> None:
        plane = await start(definition("m", path, 300, execution="process"))
        entry = plane.entry("m")
        assert entry is not None
        assert entry.reason == "its process did not answer within 0.3 s (load_timeout) while it loaded the model"

    asyncio.run(run())


class TestWhatComesTooLate:
    def discarded(self, outcome: Any) -> list[Any]:
        """What is discarded when the wait for work was cancelled that then returned, or raised, `outcome`."""
        go_on, ended = threading.Event(), threading.Event()
        found: list[Any] = []

        def work() -> Any:
            assert go_on.wait(30)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        def discard(result: Any) -> None:
            found.append(result)
            ended.set()

        async def run() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(in_thread("work", work, discard), 0.001)
            thread = next(thread for thread in threading.enumerate() if thread.name == "work")
            go_on.set()
            await asyncio.to_thread(thread.join, 30)
            await asyncio.sleep(0)  # in which the loop is told
            if not isinstance(outcome, Exception):
                assert await asyncio.to_thread(ended.wait, 30)

        asyncio.run(run())
        return found

    def test_is_let_go(self) -> None:
        assert self.discarded("late") == ["late"]

    def test_but_not_an_error(self) -> None:
        assert self.discarded(ValueError()) == []
