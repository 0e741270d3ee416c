"""What the servers of `known_servers.py` do with a request: one struct per behaviour, times in milliseconds.

Behaviours with a clock of their own start it with the first request, so that a slow start-up changes nothing. Requests
are numbered from 0 in the order of their arrival; a client sends the next one on a connection after an answer.
"""

import asyncio
import itertools
import json
import math
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol

import msgspec

Handler = Callable[["Connection", int], None]

OK_BODY = b'{"ok":true}'
ERROR_BODY = b'{"error":"the model failed"}'
TEXTS = ("é", "😀", "word", " naïve")
"""What tokens of an event stream are, in turn."""


class Connection(Protocol):
    """What a behaviour can do to one. `head` is that of the request that came last."""

    head: bytes

    def send(self, data: bytes, *, is_last: bool = False) -> None:
        """Part of an answer; nothing happens when the client is gone."""

    def close(self) -> None:
        """Send what has been written, then end."""

    def reset(self) -> None:
        """End so that the client sees an error."""


class Behaviour(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        """What is called with each request."""
        raise NotImplementedError


def answer(body: bytes = OK_BODY, status: str = "200 OK", *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join((*lines, "", "")).encode() + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


OK = answer()
LAST_CHUNK = b"0\r\n\r\n"


def _after(loop: asyncio.AbstractEventLoop, ms: float, connection: Connection, data: bytes = OK) -> None:
    if ms > 0:
        loop.call_later(ms / 1_000, lambda: connection.send(data, is_last=True))
    else:
        connection.send(data, is_last=True)


# how long it takes


class Sleep(Behaviour, frozen=True, kw_only=True):
    """Every answer takes `ms`; at 0 as fast as it can."""

    ms: float = 0.0

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        return lambda connection, number: _after(loop, self.ms, connection)


class Cycle(Behaviour, frozen=True, kw_only=True):
    """Takes `first_ms`, one more the next time, up to `last_ms`, and from the beginning."""

    first_ms: int = 1
    last_ms: int = 100

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        count = self.last_ms - self.first_ms + 1
        return lambda connection, number: _after(loop, self.first_ms + number % count, connection)


class Lognormal(Behaviour, frozen=True, kw_only=True):
    """Takes times whose logarithm is normal with deviation `sigma`. Their p-quantile is `quantile_ms(p)`."""

    median_ms: float = 20.0
    sigma: float = 0.5
    seed: int = 1

    def times_ms(self) -> Iterator[float]:
        """How long requests 0, 1, 2, … take."""
        draw = random.Random(self.seed)
        while True:
            yield draw.lognormvariate(math.log(self.median_ms), self.sigma)

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        times = self.times_ms()
        return lambda connection, number: _after(loop, next(times), connection)


class Stall(Behaviour, frozen=True, kw_only=True):
    """Takes `ms`, but at the end of every `every_s` the whole process freezes for `for_s`."""

    every_s: float = 5.0
    for_s: float = 1.0
    ms: float = 0.0

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        def freeze(end: float) -> None:
            time.sleep(max(0.0, end - loop.time()))
            loop.call_at(end + self.every_s - self.for_s, freeze, end + self.every_s)

        def handle(connection: Connection, number: int) -> None:
            if number == 0:
                end = loop.time() + self.every_s
                loop.call_at(end - self.for_s, freeze, end)
            _after(loop, self.ms, connection)

        return handle


class Slow(Behaviour, frozen=True, kw_only=True):
    """Works on one request at a time, `ms` each, in the order of their arrival: 1,000 / `ms` per second at most."""

    ms: float = 10.0

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        free_at = 0.0

        def handle(connection: Connection, number: int) -> None:
            nonlocal free_at
            free_at = max(free_at, loop.time()) + self.ms / 1_000
            loop.call_at(free_at, lambda: connection.send(OK, is_last=True))

        return handle


class Alternate(Behaviour, frozen=True, kw_only=True):
    """Takes `fast_ms` for `period_s`, then `slow_ms` as long, and so on."""

    period_s: float = 1.0
    fast_ms: float = 1.0
    slow_ms: float = 20.0

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        started = 0.0

        def handle(connection: Connection, number: int) -> None:
            nonlocal started
            started = started or loop.time()
            is_slow = int((loop.time() - started) / self.period_s) % 2
            _after(loop, self.slow_ms if is_slow else self.fast_ms, connection)

        return handle


class Warming(Behaviour, frozen=True, kw_only=True):
    """Takes `first_ms` in the first `first_s`, and `ms` from then on."""

    first_s: float = 1.0
    first_ms: float = 50.0
    ms: float = 5.0

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        warm_at = 0.0

        def handle(connection: Connection, number: int) -> None:
            nonlocal warm_at
            warm_at = warm_at or loop.time() + self.first_s
            _after(loop, self.ms if loop.time() >= warm_at else self.first_ms, connection)

        return handle


# how it fails


class Errors(Behaviour, frozen=True, kw_only=True):
    """`share` of the requests fail after `error_ms`, spread evenly; the others are answered after `ms`.

    status: 429. silence: no answer, ever. body: 200 with a body that tells of an error.
    """

    kind: Literal["status", "silence", "body"] = "status"
    share: float = 0.3
    error_ms: float = 1.0
    ms: float = 50.0

    def fails(self, number: int) -> bool:
        return math.floor((number + 1) * self.share) > math.floor(number * self.share)

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        error = answer(ERROR_BODY) if self.kind == "body" else answer(ERROR_BODY, "429 Too Many Requests")

        def handle(connection: Connection, number: int) -> None:
            if not self.fails(number):
                _after(loop, self.ms, connection)
            elif self.kind != "silence":
                _after(loop, self.error_ms, connection, error)

        return handle


class Dying(Behaviour, frozen=True, kw_only=True):
    """Takes `ms` for each request, and after `after_s` ends.

    exit: the process is gone. reset: every request, and every one after it, is answered with a reset. silence: it takes
    connections and requests and answers none. refuse: no new connection comes to be; those that are open are served.
    """

    after_s: float = 1.0
    ending: Literal["exit", "reset", "silence", "refuse"] = "exit"
    ms: float = 1.0

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        is_over = False

        def end() -> None:
            nonlocal is_over
            is_over = True
            if self.ending == "exit":
                os._exit(0)
            if self.ending == "refuse":
                listener.close()

        def handle(connection: Connection, number: int) -> None:
            if number == 0:
                loop.call_later(self.after_s, end)
            if not is_over or self.ending == "refuse":
                _after(loop, self.ms, connection)
            elif self.ending == "reset":
                connection.reset()

        return handle


class Garbage(Behaviour, frozen=True, kw_only=True):
    """Answers with bytes that are no HTTP."""

    data: bytes = b"SSH-2.0-OpenSSH_9.2\r\n\r\n\x00\xff"

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        return lambda connection, number: connection.send(self.data, is_last=True)


class EarlyClose(Behaviour, frozen=True, kw_only=True):
    """Closes before it has sent anything, after the head, or after half of the body."""

    sent: Literal["nothing", "head", "half"] = "half"

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        lengths = {"nothing": 0, "head": len(OK) - len(OK_BODY), "half": len(OK) - len(OK_BODY) // 2}

        def handle(connection: Connection, number: int) -> None:
            connection.send(OK[: lengths[self.sent]])
            connection.close()

        return handle


# how the answer comes


class Redirecting(Behaviour, frozen=True, kw_only=True):
    location: str = "http://127.0.0.1:9/elsewhere"
    status: str = "307 Temporary Redirect"

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        data = answer(b"", self.status, f"Location: {self.location}")
        return lambda connection, number: connection.send(data, is_last=True)


class Chunked(Behaviour, frozen=True, kw_only=True):
    """The body in `pieces` chunks, `ms` between two."""

    pieces: int = 3
    ms: float = 0.0
    with_trailer: bool = False

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        size = math.ceil(len(OK_BODY) / self.pieces)
        chunks = [chunk(OK_BODY[start : start + size]) for start in range(0, len(OK_BODY), size)]
        end = b"0\r\nX-Checksum: 7\r\n\r\n" if self.with_trailer else LAST_CHUNK
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        return _in_parts(loop, [(0.0, head + chunks[0]), *((self.ms, piece) for piece in (*chunks[1:], end))])


class SlowBody(Behaviour, frozen=True, kw_only=True):
    """Head at once, then the body in `pieces` with `ms` before each."""

    pieces: int = 4
    ms: float = 10.0

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        start = len(OK) - len(OK_BODY)
        size = math.ceil(len(OK_BODY) / self.pieces)
        body = [OK[position : position + size] for position in range(start, len(OK), size)]
        return _in_parts(loop, [(0.0, OK[:start]), *((self.ms, piece) for piece in body)])


def _in_parts(
    loop: asyncio.AbstractEventLoop, parts: Sequence[tuple[float, bytes]], *, is_cut: bool = False
) -> Handler:
    """Sends each part so many milliseconds after the one before, and closes then if the answer is cut."""

    def send(connection: Connection, index: int) -> None:
        is_last = index == len(parts) - 1
        connection.send(parts[index][1], is_last=is_last and not is_cut)
        if not is_last:
            loop.call_later(parts[index + 1][0] / 1_000, send, connection, index + 1)
        elif is_cut:
            connection.close()

    return lambda connection, number: send(connection, 0)


class Closing(Behaviour, frozen=True, kw_only=True):
    """Closes after each answer. It says so and gives a length, or neither: then the close ends the body."""

    with_length: bool = True

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        plain = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + OK_BODY
        data = answer(OK_BODY, "200 OK", "Connection: close") if self.with_length else plain

        def handle(connection: Connection, number: int) -> None:
            connection.send(data, is_last=True)
            connection.close()

        return handle


class Events(Behaviour, frozen=True, kw_only=True):
    """A chat completion of OpenAI as server-sent events: `tokens`, the first after `first_ms`, then one per `token_ms`.

    ending: done, as it should. missing: no [DONE], the body ends as it should. cut: the connection is closed in the
    middle of the tokens. error: an error event in their middle, then [DONE].
    pieces: event, a chunk each. joined: two per chunk. split: each in two chunks, within a character where there is one
    of several bytes.
    Source: platform.openai.com/docs/api-reference/chat-streaming.
    """

    tokens: int = 10
    first_ms: float = 20.0
    token_ms: float = 5.0
    ending: Literal["done", "missing", "cut", "error"] = "done"
    pieces: Literal["event", "joined", "split"] = "event"

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        return _in_parts(loop, [*self._parts()], is_cut=self.ending == "cut")

    def _parts(self) -> Iterator[tuple[float, bytes]]:
        """What is sent, and how long after the part before."""
        yield 0.0, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        events = [*self._events()]
        wait = itertools.chain((self.first_ms,), itertools.repeat(self.token_ms))
        if self.pieces == "joined":
            joined = [b"".join(events[start : start + 2]) for start in range(0, len(events), 2)]
            yield from zip(wait, map(chunk, joined), strict=False)
        elif self.pieces == "split":
            for wait_ms, event in zip(wait, events, strict=False):
                wide = next((place for place, byte in enumerate(event) if byte >= 0xC0), len(event) // 2)
                yield wait_ms, chunk(event[: wide + 1])
                yield 1.0, chunk(event[wide + 1 :])
        else:
            yield from zip(wait, map(chunk, events), strict=False)
        if self.ending != "cut":
            yield 0.0, LAST_CHUNK

    def _events(self) -> Iterator[bytes]:
        for index in range(self.tokens):
            if index == self.tokens // 2 and self.ending == "cut":
                return
            if index == self.tokens // 2 and self.ending == "error":
                yield _event({"error": {"message": "out of memory", "type": "server_error", "code": 500}})
                break
            delta = {"content": TEXTS[index % len(TEXTS)]}
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            yield _event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})
        if self.ending != "missing":
            yield b"data: [DONE]\n\n"


def _event(document: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"


class Pages(Behaviour, frozen=True, kw_only=True):
    """Documents by path, text as it is given; 404 for every other path. `ms` is how long each takes."""

    pages: dict[str, str]
    ms: float = 0.0

    def handler(self, loop: asyncio.AbstractEventLoop, listener: asyncio.Server) -> Handler:
        answers = {path.encode(): answer(text.encode()) for path, text in self.pages.items()}
        missing = answer(b'{"error":"no such page"}', "404 Not Found")

        def handle(connection: Connection, number: int) -> None:
            _after(loop, self.ms, connection, answers.get(connection.head.split(b" ")[1], missing))

        return handle


AnyBehaviour = (
    Sleep | Cycle | Lognormal | Stall | Slow | Alternate | Warming | Errors | Dying | Garbage | EarlyClose | Redirecting
    | Chunked | SlowBody | Closing | Events | Pages
)  # fmt: skip
