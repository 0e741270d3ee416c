"""Work of any thread on a loop of its own: none is lost, and nobody waits for a loop that has gone."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from guepard.embedding.loop_thread import Ended, LoopThread


async def nothing() -> None:
    pass


def test_what_was_taken_runs_and_what_comes_later_is_refused() -> None:
    for _ in range(20):
        thread = LoopThread("test")
        ran: list[int] = []
        taken: list[int] = []

        def give(first: int, thread: LoopThread = thread, ran: list[int] = ran, taken: list[int] = taken) -> None:
            for number in range(first, first + 1_000):
                try:
                    thread.post(ran.append, number)
                except Ended:
                    return
                taken.append(number)

        with ThreadPoolExecutor(3) as pool:
            giving = [pool.submit(give, first) for first in (0, 1_000)]
            pool.submit(thread.end, nothing)
            for each in giving:
                each.result(30)
        thread.end(nothing)
        assert sorted(ran) == sorted(taken)


def test_results_and_errors_come_back() -> None:
    async def fail() -> None:
        raise LookupError("here")

    async def where() -> threading.Thread:
        await asyncio.sleep(0)
        return threading.current_thread()

    thread = LoopThread("test")
    assert thread.run(where()).name == "test"
    with pytest.raises(LookupError, match="here"):
        thread.run(fail())
    thread.end(nothing)
    with pytest.raises(Ended):
        thread.run(where())


def test_the_last_thing_runs_once_however_many_end_it() -> None:
    ran: list[int] = []

    async def last() -> None:
        await asyncio.sleep(0.01)
        ran.append(1)

    thread = LoopThread("test")
    with ThreadPoolExecutor(5) as pool:
        for ended in [pool.submit(thread.end, last) for _ in range(5)]:
            ended.result(30)
    thread.wait()
    assert ran == [1]
    assert thread.has_ended


def test_it_can_be_ended_from_its_own_thread() -> None:
    thread = LoopThread("test")
    thread.post(thread.end, nothing)
    thread.wait()
