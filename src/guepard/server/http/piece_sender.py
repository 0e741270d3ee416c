"""Sends one answer piece by piece, while its later pieces are still being made.

    loop     make 1 | make 2       | make 3, write 1       | make 4, write 2 …
    coder           | code 1       | code 2                | code 3 …

Between two pieces the loop serves others. A piece is made only when the client has taken what was written, so at most
a few are there at a time. HTTP/1.1 gets chunks. HTTP/1.0 has none: all pieces are collected first, for their length.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Protocol

from guepard.core.errors import GuepardError, InternalError
from guepard.protocols import content_coding
from guepard.server.http import answer_coding
from guepard.server.http.coders import Coders
from guepard.server.http.endpoint import Pieces
from guepard.server.http.request_head import RequestHead
from guepard.server.http.response_writer import JOIN_LIMIT

log = logging.getLogger(__name__)

CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"

Piece = bytes | memoryview


class Outlet(Protocol):
    """The connection that the answer leaves by."""

    @property
    def is_blocked(self) -> bool:
        """Whether the client has to read before more is written; `resume` of the sender tells when it has."""
        ...

    def fail_with(self, error: GuepardError) -> None:
        """Give up on the answer, of which nothing has been written."""
        ...

    def begin_answer(self, status: int, headers: bytes, framing: bytes, error: GuepardError | None) -> None:
        """Write the head of the answer; `framing` is its last header line and the empty line."""
        ...

    def write_pieces(self, data: list[Piece]) -> None: ...

    def end_answer(self, status: int, bytes_out: int, error: GuepardError | None) -> None:
        """All of the answer has been written."""
        ...

    def abort(self) -> None:
        """End the connection, so that what was written cannot be taken for the whole."""
        ...


class PieceSender:
    """The answer to `head`: its status, its `headers` beside those of `source`, and the error that it tells of."""

    __slots__ = (
        "_coders",
        "_error",
        "_head",
        "_headers",
        "_outlet",
        "_resumed",
        "_source",
        "_status",
        "_task",
        "bytes_out",
    )

    def __init__(
        self,
        outlet: Outlet,
        coders: Coders,
        head: RequestHead,
        status: int,
        headers: bytes,
        source: Pieces,
        error: GuepardError | None = None,
    ) -> None:
        self._outlet = outlet
        self._coders = coders
        self._head = head
        self._status = status
        self._headers = headers
        self._source = source
        self._error = error
        self._resumed = asyncio.Event()
        self.bytes_out = 0
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(self._let_go)

    def cancel(self) -> None:
        """The client has left. A piece that is being coded is finished, and dropped."""
        self._task.cancel()

    def resume(self) -> None:
        self._resumed.set()

    def _let_go(self, _: object) -> None:
        """The task and this refer to each other: drop the tensors now, and not when the collector comes."""
        del self._source

    async def _run(self) -> None:
        try:
            for _ in self._source.prepare():
                await asyncio.sleep(0)
        except GuepardError as error:
            self._outlet.fail_with(error)
            return
        except Exception:
            log.exception("an answer of %s could not be written", self._head.path)
            self._outlet.fail_with(InternalError("the answer could not be written; the server's log says why"))
            return
        try:
            await self._send()
        except Exception:
            log.exception("an answer of %s broke off", self._head.path)
            self._outlet.abort()

    async def _send(self) -> None:
        headers, coding = answer_coding.choose(self._head, self._source.headers() + self._headers)
        pieces = self._made() if coding is None else self._coded(coding)
        if self._head.version == "1.0":
            await self._send_collected(headers, pieces)
        else:
            self._outlet.begin_answer(self._status, headers, CHUNKED, self._error)
            async with aclosing(pieces):  # a client that leaves takes the tensors along, at once
                async for piece in pieces:
                    if len(piece):  # an empty chunk is the end
                        await self._write(piece, [b"%x\r\n" % len(piece), piece, b"\r\n"])
            self._outlet.write_pieces([_LAST_CHUNK])
        self._outlet.end_answer(self._status, self.bytes_out, self._error)

    async def _send_collected(self, headers: bytes, pieces: AsyncGenerator[Piece, None]) -> None:
        collected = [piece async for piece in pieces]
        length = sum(map(len, collected))
        self._outlet.begin_answer(self._status, headers, b"content-length: %d\r\n\r\n" % length, self._error)
        for piece in collected:
            await self._write(piece, [piece])

    async def _write(self, piece: Piece, data: list[Piece]) -> None:
        """Returns when the client is ready for more."""
        self._resumed.clear()
        self._outlet.write_pieces([b"".join(data)] if len(piece) <= JOIN_LIMIT else data)
        self.bytes_out += len(piece)
        while self._outlet.is_blocked:
            await self._resumed.wait()
            self._resumed.clear()

    async def _made(self) -> AsyncGenerator[Piece, None]:
        for piece in self._source.pieces():
            yield piece
            await asyncio.sleep(0)

    async def _coded(self, coding: str) -> AsyncGenerator[Piece, None]:
        """While a piece is being coded, the next one is made and the one before is sent."""
        encoder = await self._coders.run(content_coding.encoder, coding)
        pending: Awaitable[bytes] | None = None
        async with aclosing(self._made()) as made:
            async for piece in made:
                coded = await pending if pending is not None else b""
                pending = self._coders.run(encoder.compress, piece)
                if coded:
                    yield coded
        if pending is not None:
            yield await pending
        yield await self._coders.run(encoder.finish)
