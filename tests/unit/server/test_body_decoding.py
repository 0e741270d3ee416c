"""Long bodies are read on other threads, and what happens to their connections meanwhile."""

import asyncio
import threading
from typing import Any, cast

import pytest

from guepard.core.errors import GuepardError, InputError, NotFound
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY
from guepard.server.http.body_decoding import BodyDecoding, Pause
from guepard.server.http.coders import Coders
from guepard.server.http.endpoint import Exchange


class Waiting:
    """An exchange that notes what it is told."""

    def __init__(self) -> None:
        self.works: list[Any] = []
        self.errors: list[GuepardError] = []

    def wait_for(self, work: Any) -> None:
        self.works.append(work)

    def fail_with(self, error: GuepardError) -> None:
        self.errors.append(error)


def run(decode: Any, execute: Any, refuse: Any, *, leave: threading.Event | None = None) -> Waiting:
    exchange = Waiting()

    async def main() -> None:
        decoders = Coders.for_bodies(1)
        work = BodyDecoding(cast(Exchange, exchange), decoders, decode, execute, refuse)
        if leave is not None:
            await asyncio.to_thread(leave.wait)
            work.cancel()
        await asyncio.wait([work._task])
        decoders.close()

    asyncio.run(main())
    return exchange


REQUEST = InferenceRequest((), NOBODY, 0)


def test_it_is_read_on_another_thread_and_executed_on_the_loop() -> None:
    threads: list[str] = []

    def decode(pause: Pause) -> InferenceRequest:
        pause()
        threads.append(threading.current_thread().name)
        return REQUEST

    executed: list[InferenceRequest] = []
    exchange = run(decode, executed.append, None)
    assert executed == [REQUEST]
    assert exchange.works == [None]
    assert threads[0].startswith("body")


@pytest.mark.parametrize("gone", [False, True])
def test_what_is_wrong_is_refused(gone: bool) -> None:
    def decode(pause: Pause) -> InferenceRequest:
        raise InputError("it is wrong")

    refused: list[GuepardError] = []

    def refuse(error: GuepardError) -> None:
        if gone:
            raise NotFound("the model has gone")
        refused.append(error)

    exchange = run(decode, None, refuse)
    told = exchange.errors if gone else refused
    assert [error.message for error in told] == ["the model has gone" if gone else "it is wrong"]


def test_a_fault_of_its_own_is_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    def decode(pause: Pause) -> InferenceRequest:
        raise ZeroDivisionError

    assert [error.message[:12] for error in run(decode, None, None).errors] == ["the request "]
    assert "could not be read" in caplog.text


def test_nobody_is_answered_who_has_left_and_the_thread_ends() -> None:
    begun, ended = threading.Event(), threading.Event()

    def decode(pause: Pause) -> InferenceRequest:
        begun.set()
        try:
            while True:
                pause()
        finally:
            ended.set()

    exchange = run(decode, None, None, leave=begun)
    assert ended.is_set()
    assert (exchange.works, exchange.errors) == ([], [])


@pytest.mark.parametrize(("cpus", "threads"), [(1, 1), (2, 1), (4, 2), (64, 4)])
def test_half_of_the_cpus_read_bodies(cpus: int, threads: int) -> None:
    assert Coders.for_bodies(cpus)._pool._max_workers == threads
