"""A served model whose instances are lost and come back: no request is lost with them, none waits for nothing."""

from typing import Any

from guepard.batching.dynamic_batcher import Batch
from guepard.core.errors import NotReady
from guepard.core.model_config import SECOND
from guepard.engine.execution import execute
from guepard.engine.instance import Instance
from tests.unit.batching.arrivals import sender_of
from tests.unit.engine.configs import model_config
from tests.unit.engine.stage import Stage


class FakeInstance(Instance):
    """Does what the test says: holds its batch until `finish`, is lost and mended."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.executor, model_config(), stage.served)
        self.batch: Batch | None = None
        self.fit = True
        self.mends = 0
        self.pause = 0

    @property
    def pause_ns(self) -> int:
        return self.pause

    @property
    def is_fit(self) -> bool:
        return self.fit

    def start(self, batch: Batch) -> None:
        assert self.batch is None
        self.batch = batch

    def finish(self) -> None:
        batch, self.batch = self.batch, None
        assert batch is not None
        self._owner.executed(self, batch, execute(self._executor, self._config, batch))

    def mend(self) -> None:
        self.mends += 1

    def mended(self) -> None:
        self.fit = True
        self._owner.instance_mended(self)

    def lose(self) -> None:
        self.fit = False
        self._owner.instance_lost(self)

    def down(self) -> None:
        self._owner.instance_down(self, "there is no file")

    def stop(self) -> None:
        """Nothing to stop."""

    def join(self, timeout_s: float) -> bool:
        return True


def stage_with(count: int) -> tuple[Stage, list[FakeInstance]]:
    stage = Stage(max_batch_size=1, instance_count=count)
    stage.served._pool._idle[0].stop()
    instances = [FakeInstance(stage) for _ in range(count)]
    stage.served._pool._idle[:] = instances
    stage.served._pool._instances = tuple(instances)
    stage.served._batcher.idle = count
    return stage, instances


def ask(stage: Stage, value: float) -> Any:
    request = stage.send(value)
    stage.clock.turn()
    return request


def test_an_idle_instance_that_is_lost_gets_no_batch_until_it_is_back() -> None:
    stage, (only,) = stage_with(1)
    only.lose()
    assert (only.mends, stage.served.is_fit) == (1, False)
    assert stage.served.obstacle == "its process was lost and another is being started"
    request = ask(stage, 1)
    assert (only.batch, stage.served.queue_depth) == (None, 1)
    only.mended()
    stage.clock.turn()
    assert stage.served.is_fit
    only.finish()
    assert sender_of(request).values == [2]


def test_one_that_is_lost_in_a_batch_answers_it_and_is_then_mended() -> None:
    stage, (only,) = stage_with(1)
    first, second = ask(stage, 1), ask(stage, 2)
    only.lose()
    assert only.mends == 0  # it meets its loss by itself
    only.finish()
    assert sender_of(first).values == [2]
    assert (only.mends, only.batch) == (1, None)
    only.mended()
    stage.clock.turn()
    only.finish()
    assert sender_of(second).values == [4]
    assert stage.served.executing == 0


def test_the_others_go_on() -> None:
    stage, (left, right) = stage_with(2)
    right.lose()
    assert stage.served.is_fit
    first, second = ask(stage, 1), ask(stage, 2)
    left.finish()
    stage.clock.turn()
    left.finish()
    assert [sender_of(request).values for request in (first, second)] == [[2], [4]]
    right.down()
    assert stage.served.accepts
    right.mended()
    third, fourth = ask(stage, 3), ask(stage, 4)
    for instance in (left, right):
        instance.finish()
    assert sorted(sender_of(request).values for request in (third, fourth)) == [[6], [8]]


def test_with_none_that_runs_whoever_waits_or_comes_is_told() -> None:
    stage, (left, right) = stage_with(2)
    left.lose()
    right.lose()
    waiting = ask(stage, 1)
    left.down()
    assert not sender_of(waiting).ends  # the other may yet come back
    right.down()
    late = ask(stage, 2)
    for request in (waiting, late):
        error = sender_of(request).error
        assert isinstance(error, NotReady)
        assert error.message == "model 'm' has no instance that runs: there is no file"
        assert error.retry_after_ms == SECOND // 1_000_000
    assert not stage.served.accepts
    assert stage.served.obstacle == "there is no file"
    left.mended()
    assert stage.served.accepts
    request = ask(stage, 3)
    left.finish()
    assert sender_of(request).values == [6]


def test_callers_are_told_when_the_next_instance_starts() -> None:
    stage, (left, right) = stage_with(2)
    left.pause, right.pause = 12 * SECOND, 2 * SECOND + 1
    for instance in (left, right):
        instance.lose()
        instance.down()
    error = sender_of(ask(stage, 1)).error
    assert isinstance(error, NotReady)
    assert error.message == "model 'm' has no instance that runs: there is no file; the next process starts in 2 s"
    assert error.retry_after_ms == 2_001
    right.pause = SECOND // 10
    error = sender_of(ask(stage, 1)).error
    assert isinstance(error, NotReady)
    assert (error.message[-28:], error.retry_after_ms) == ("next process starts in 0.1 s", 1_000)


def test_one_that_is_being_started_comes_before_one_that_pauses() -> None:
    stage, (left, right) = stage_with(2)
    left.pause = 12 * SECOND
    left.lose()
    left.down()
    right.lose()
    assert stage.served.obstacle == "its process was lost and another is being started"


def test_news_of_one_that_is_well_again_or_gone_change_nothing() -> None:
    stage, (only,) = stage_with(1)
    only._owner.instance_lost(only)  # by then it had got another process, by its own
    only.down()
    only._owner.instance_mended(only)
    assert (only.mends, stage.served.is_fit, stage.served._batcher.idle) == (0, True, 1)
