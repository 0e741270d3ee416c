"""The event loop that a Python model has for itself."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from guepard.backends.private_loop import PrivateLoop


@pytest.fixture
def loop() -> Iterator[PrivateLoop]:
    loop = PrivateLoop("test-private-loop")
    yield loop
    loop.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "test-private-loop"]


async def answer() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_it_runs_on_a_thread_of_its_own_even_inside_a_running_loop(loop: PrivateLoop) -> None:
    async def inside() -> str:
        return str(loop.run(answer()))

    assert asyncio.run(inside()) == "test-private-loop"


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), asyncio.CancelledError(), StopAsyncIteration()])
def test_whatever_is_raised_reaches_the_caller_and_spares_the_loop(loop: PrivateLoop, error: BaseException) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        loop.run(fail())
    assert loop.run(answer()) == "test-private-loop"


def test_an_iteration_that_is_left_closes_the_generator(loop: PrivateLoop) -> None:
    closed = threading.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(10):
                yield number
        finally:
            closed.set()

    iteration = loop.iterate(numbers())  # type: ignore[arg-type]
    assert [next(iteration), next(iteration)] == [0, 1]
    iteration.close()  # type: ignore[attr-defined]
    assert closed.is_set()


def test_what_was_started_lives_on_until_the_end() -> None:
    loop = PrivateLoop("test-background")
    questions: asyncio.Queue[int] = asyncio.Queue()
    answers: list[int] = []
    ended = threading.Event()
    tasks: list[asyncio.Task[None]] = []

    async def work() -> None:
        try:
            while True:
                answers.append(2 * await questions.get())
                questions.task_done()
        finally:
            ended.set()

    async def start() -> None:
        tasks.append(asyncio.create_task(work()))

    async def ask(number: int) -> None:
        await questions.put(number)
        await questions.join()

    loop.run(start())
    loop.run(ask(1))
    loop.run(ask(2))
    assert answers == [2, 4]
    assert not ended.is_set()
    loop.close()
    assert ended.is_set()
