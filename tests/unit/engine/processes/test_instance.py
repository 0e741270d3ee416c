"""An instance that loses its process: when it tries again, and what it says meanwhile."""

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any, cast

import pytest

from guepard.core.errors import InstanceLost, LoadError
from guepard.core.model_config import SECOND
from guepard.engine.processes import instance as instance_module
from guepard.engine.processes.instance import ProcessInstance
from tests.unit.engine.configs import model_config
from tests.unit.engine.fake_executors import FakeExecutor


class FakeProcess(FakeExecutor):
    """A process that is lost when the test says so, and whose next starts fail as often as it says."""

    def __init__(self) -> None:
        super().__init__()
        self.is_lost = False
        self.pid = 1
        self.fate = "was killed by SIGKILL"
        self.failures = 0
        self.starts = 0
        self.abandoned = threading.Event()

    def mend(self) -> None:
        self.starts += 1
        if self.failures:
            self.failures -= 1
            raise LoadError("there is no file")
        self.is_lost = False
        self.pid += 1

    def abandon(self) -> None:
        self.abandoned.set()


class Owner:
    """Keeps what it is told, in order."""

    def __init__(self) -> None:
        self.told: SimpleQueue[tuple[str, str]] = SimpleQueue()

    def instance_lost(self, instance: Any) -> None:
        self.told.put(("lost", ""))

    def instance_mended(self, instance: Any) -> None:
        self.told.put(("mended", ""))

    def instance_down(self, instance: Any, reason: str) -> None:
        self.told.put(("down", reason))

    def next(self) -> tuple[str, str]:
        return self.told.get(timeout=10)


class Scene:
    def __init__(self) -> None:
        self.process = FakeProcess()
        self.owner = Owner()
        self.pauses: list[float] = []
        self.warm_ups: list[BaseException | None] = []
        self.instance = ProcessInstance(
            cast("Any", self.process),
            model_config(),
            cast("Any", self.owner),
            lambda callback, *arguments: callback(*arguments),
            3,
            self._prepare,
        )
        self.instance._stopping = cast("Any", self)

    def _prepare(self, executor: Any) -> None:
        error = self.warm_ups.pop(0) if self.warm_ups else None
        if error is not None:
            self.process.is_lost = True
            raise error

    # In place of the event that `stop` sets: pauses take no time.

    stopped = False

    def wait(self, pause_s: float) -> bool:
        self.pauses.append(pause_s)
        return self.stopped

    def is_set(self) -> bool:
        return self.stopped

    def set(self) -> None:
        self.stopped = True

    def lose(self) -> None:
        self.process.is_lost = True
        self.process.on_loss()  # type: ignore[attr-defined]
        assert self.owner.next() == ("lost", "")
        assert not self.instance.is_fit
        self.instance.mend()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.instance.stop()
    assert scene.instance.join(10)
    assert scene.process.closed


def test_the_first_time_there_is_no_pause(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.lose()
    assert scene.owner.next() == ("mended", "")
    assert (scene.pauses, scene.instance.is_fit) == ([0], True)
    assert "model m: the process of instance 3 (pid 1) was killed by SIGKILL; starting another" in caplog.text


def test_pauses_double_and_long_ones_are_told(scene: Scene) -> None:
    told = []
    for _ in range(12):
        scene.lose()
        while (news := scene.owner.next())[0] != "mended":
            told.append(news)
    assert scene.pauses == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert len(told) == 7
    assert told[0] == ("down", "its process was killed by SIGKILL")


def test_what_is_left_of_a_pause_is_known(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10**12]
    monkeypatch.setattr(instance_module, "monotonic_ns", lambda: now[0])
    left: list[int] = []

    def wait(pause_s: float) -> bool:
        left.append(scene.instance.pause_ns)
        now[0] += int(pause_s * SECOND) // 4
        left.append(scene.instance.pause_ns)
        now[0] += SECOND
        return False

    monkeypatch.setattr(scene, "wait", wait)
    scene.process.failures = 1
    assert scene.instance.pause_ns == 0
    scene.lose()
    assert scene.owner.next() == ("down", "there is no file")
    assert scene.owner.next() == ("mended", "")
    assert left == [0, 0, SECOND // 10, SECOND // 40 * 3]
    assert scene.instance.pause_ns == 0


def test_after_a_calm_time_they_begin_anew(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        scene.lose()
        assert scene.owner.next() == ("mended", "")
    monkeypatch.setattr(instance_module, "_CALM_NS", -1)
    scene.lose()
    assert scene.owner.next() == ("mended", "")
    assert scene.pauses == [0, 0.1, 0.2, 0]


def test_a_start_that_fails_is_told_each_time_and_tried_again(scene: Scene) -> None:
    scene.process.failures = 3
    scene.lose()
    assert [scene.owner.next() for _ in range(4)] == [("down", "there is no file")] * 3 + [("mended", "")]
    assert scene.process.starts == 4
    assert scene.pauses == [0, 0.1, 0.2, 0.4]


def test_one_that_is_lost_again_while_it_warms_up(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.warm_ups = [InstanceLost("its process was killed by SIGSEGV"), None]
    scene.lose()
    assert scene.owner.next() == ("mended", "")
    assert scene.process.starts == 2
    assert "instance 3 failed to warm up: its process was killed by SIGSEGV" in caplog.text


def test_no_process_is_started_for_an_instance_that_is_stopped(scene: Scene) -> None:
    scene.stopped = True
    scene.process.is_lost = True
    scene.instance.mend()
    scene.instance.stop()
    assert scene.instance.join(10)
    assert scene.process.starts == 0


def test_what_does_not_end_is_abandoned() -> None:
    scene = Scene()
    scene.instance._do(lambda: assert_true(scene.process.abandoned.wait(10)))
    scene.instance.stop()
    assert scene.instance.join(0.01) or scene.instance.join(10)
    assert scene.process.abandoned.is_set()


def assert_true(value: bool) -> None:
    assert value
