"""Many callers of one server at once, each on a connection of its own."""

import asyncio
import json
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import aiohttp

from guepard.testing.running_server import RunningServer
from tests.services.waiting import wait_until


class Call(NamedTuple):
    model: str
    body: dict[str, Any] | bytes
    headers: Mapping[str, str] | None = None
    delay_s: float = 0.0
    route: str = "/v2/models/{model}/infer"


class Reply(NamedTuple):
    """`seconds` from sending to the whole answer; `at` is when that was, on the monotonic clock."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> list[Any]:
        """The flat data of the first output."""
        assert self.status == 200, self.body
        return list(self.json["outputs"][0]["data"])


def call_together(server: RunningServer, calls: Sequence[Call], timeout_s: float = 30.0) -> list[Reply]:
    """The replies in the order of the calls. Connections are made before the first request is sent."""
    return asyncio.run(_call_together(server, calls, timeout_s))


async def _call_together(server: RunningServer, calls: Sequence[Call], timeout_s: float) -> list[Reply]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(timeout_s)) as session:
        await asyncio.gather(*[_warm(session, server) for _ in calls])
        return list(await asyncio.gather(*[_call(session, server, call) for call in calls]))


async def _warm(session: aiohttp.ClientSession, server: RunningServer) -> None:
    async with session.get(f"{server.url}/v2/health/live") as answer:
        await answer.read()


async def _call(session: aiohttp.ClientSession, server: RunningServer, call: Call) -> Reply:
    await asyncio.sleep(call.delay_s)
    body = json.dumps(call.body).encode() if isinstance(call.body, dict) else call.body
    headers = {"Content-Type": "application/json"} | dict(call.headers or {})
    start = time.monotonic()
    async with session.post(server.url + call.route.format(model=call.model), data=body, headers=headers) as answer:
        content = await answer.read()
        now = time.monotonic()
        names = {name.lower(): value for name, value in answer.headers.items()}
        return Reply(answer.status, names, content, now - start, now)


def one_input(datatype: str, values: Sequence[Any], shape: Sequence[int] | None = None, **rest: Any) -> dict[str, Any]:
    """An inference request for the input `x`, by default one row of the model for each value."""
    shape = [len(values), 1] if shape is None else list(shape)
    return {"inputs": [{"name": "x", "datatype": datatype, "shape": shape, "data": list(values)}], **rest}


class SteadyLoad:
    """Callers that repeat one call, one after another, until the end of the `with` block. Then `replies` has all."""

    def __init__(self, server: RunningServer, call: Call, callers: int = 4) -> None:
        self._server = server
        self._call = call
        self._callers = callers
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.replies: list[Reply] = []

    def __enter__(self) -> "SteadyLoad":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def wait_for_more(self, count: int, timeout_s: float = 20.0) -> None:
        """Until `count` more replies have come."""
        target = len(self.replies) + count
        wait_until(lambda: len(self.replies) >= target, timeout_s)

    async def _run(self) -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            await asyncio.gather(*[self._repeat(session) for _ in range(self._callers)])

    async def _repeat(self, session: aiohttp.ClientSession) -> None:
        while not self._ended.is_set():
            self.replies.append(await _call(session, self._server, self._call))
