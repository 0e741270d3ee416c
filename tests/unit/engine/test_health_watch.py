"""What a model says of itself decides its readiness, and one that does not answer costs one thread."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from guepard.engine.data_plane import DataPlane
from guepard.engine.health_watch import HealthWatch
from tests.unit.engine.stage import Stage

# Long enough for a thread to start and answer, on a busy machine too; short where the answer never comes.
PATIENT_S = 10.0
SHORT_S = 0.01


class Hang:
    """A `health` that does not return until it is let go."""

    def __init__(self) -> None:
        self.asked = 0
        self.let_go = threading.Event()

    def __call__(self) -> None:
        self.asked += 1
        self.let_go.wait(30)


@pytest.fixture
def hang() -> Iterator[Hang]:
    hang = Hang()
    yield hang
    hang.let_go.set()


def served_by(health: object) -> Stage:
    stage = Stage(execution="inline")
    stage.model.health = health  # type: ignore[method-assign, assignment]
    return stage


async def look(watch: HealthWatch, stage: Stage, times: int = 1) -> str | None:
    for _ in range(times):
        await watch._look_at(stage.served)
    return stage.served.ailment


def test_one_that_hangs_is_asked_once_and_is_unfit_until_it_returns(hang: Hang) -> None:
    stage = served_by(hang)

    async def story() -> None:
        watch = HealthWatch(DataPlane(), SHORT_S)
        assert await look(watch, stage, 5) == "its health check did not return within 0.01 s"
        assert hang.asked == 1
        assert [thread.name for thread in threading.enumerate()].count("health-m") == 1
        hang.let_go.set()
        while await look(watch, stage) is not None:
            assert hang.asked == 1 or stage.served.ailment is None

    asyncio.run(story())


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_whatever_it_raises_makes_it_unfit_and_the_next_look_asks_again(raised: type[BaseException]) -> None:
    answers: list[BaseException | None] = [raised("secret"), None]

    def health() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    stage = served_by(health)

    async def story() -> None:
        watch = HealthWatch(DataPlane(), PATIENT_S)
        ailment = await look(watch, stage)
        assert ailment is not None
        assert ailment.startswith("its health check raised ")
        assert "secret" not in ailment
        assert await look(watch, stage) is None

    asyncio.run(story())
