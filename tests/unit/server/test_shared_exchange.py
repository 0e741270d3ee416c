"""Large copies from shared memory: few at a time, and none for callers who have left before theirs began."""

import asyncio
import threading
from typing import Any, cast

import numpy as np

from guepard.core.errors import Cancelled, GuepardError
from guepard.core.regions import Regions
from guepard.core.request import InferenceRequest
from guepard.engine.served_model import ServedModel
from guepard.engine.taker import Taker
from guepard.protocols.reply_format import BINARY, place_inputs
from guepard.protocols.shared_tensors import Place, SharedInput
from guepard.server.inference_exchange import InferenceExchange
from guepard.server.shared_exchange import SharedExchange

SIZE = 5 << 20


class SlowRegions:
    """Regions whose reads wait until `open` is set."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.began = threading.Semaphore(0)
        self.reads = 0

    def check(self, region: str, offset: int, size: int) -> None:
        pass

    def read(self, region: str, offset: int, size: int) -> memoryview:
        self.reads += 1
        self.began.release()
        assert self.open.wait(30)
        return np.zeros(size, np.uint8).data


class Caller:
    """The exchange and the model in one: notes what becomes of its request."""

    def __init__(self) -> None:
        self.taker: Taker
        self.outcome: asyncio.Future[GuepardError | None] = asyncio.get_running_loop().create_future()

    def hold(self, size: int) -> None:
        pass

    def infer_with(self, request: InferenceRequest, taker: Taker) -> None:
        self.taker = taker

    def refuse(self, request: InferenceRequest, error: GuepardError) -> None:
        self.outcome.set_result(error)

    def infer(self, request: InferenceRequest) -> None:
        self.outcome.set_result(None)


def ask(caller: Caller, regions: SlowRegions) -> InferenceRequest:
    request = InferenceRequest((), cast(Any, caller), 0)
    request.reply_format = BINARY
    place_inputs(request, [SharedInput("x", "UINT8", [1, SIZE], Place("r", 0, SIZE))])
    exchange = cast(InferenceExchange, caller)
    SharedExchange(exchange, request, cast(Regions, regions), lambda: cast(ServedModel, caller)).start()
    return request


def test_four_are_made_at_a_time_and_none_for_who_has_left() -> None:
    async def run() -> None:
        regions = SlowRegions()
        callers = [Caller() for _ in range(10)]
        requests = [ask(caller, regions) for caller in callers]
        for _ in range(4):
            assert await asyncio.to_thread(regions.began.acquire, timeout=30)
        for caller, request in zip(callers[2:8], requests[2:8], strict=True):  # two are being read, four wait
            caller.taker.cancel(request)
        regions.open.set()
        outcomes = [await caller.outcome for caller in callers]
        assert [isinstance(outcome, Cancelled) for outcome in outcomes] == [False] * 2 + [True] * 6 + [False] * 2
        assert regions.reads == 6

    asyncio.run(run())
