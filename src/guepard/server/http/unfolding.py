"""Request bodies that come with a Content-Encoding, on every route.

A head with a coding leads to an UnfoldingEndpoint, which stands before the route's own, unfolds the body, and begins
the request anew with what it found. Heads without one never meet it.
"""

import asyncio
import logging
from copy import copy

from guepard.core.errors import GuepardError, InternalError, PayloadTooLarge, UnsupportedMediaType
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.protocols import content_coding
from guepard.protocols.content_coding import Decoder
from guepard.server.http.context import HttpContext
from guepard.server.http.endpoint import Body, Buffer, Exchange, Pieces
from guepard.server.http.request_head import RequestHead

log = logging.getLogger(__name__)

# A coded body of this size is tried on the loop, up to one read: below a millisecond, whatever it holds.
_SMALL_CODED = 16_384
_SMALL = 131_072
_READS = 16  # of one step beside the loop
_ALIASES = {"x-gzip": "gzip"}


def unfold_first(head: RequestHead, context: HttpContext) -> None:
    """Have the body of `head` unfolded before its endpoint sees it. Raises: UnsupportedMediaType."""
    text = head.headers[b"content-encoding"].decode("latin-1")
    coding = text.lower()
    coding = _ALIASES.get(coding, coding)
    reads_none = head.method in ("GET", "HEAD") and not head.content_length and not head.is_chunked
    if coding in ("", "identity") or reads_none:
        return
    readable = content_coding.available()
    if coding not in readable:
        known = ", ".join(readable)
        raise UnsupportedMediaType(
            f"Content-Encoding: {text[:64]!r} is not read; send one of {known}, once, or the body as it is (identity)",
            accept_encoding=known,
        )
    plain = copy(head)
    head.endpoint = UnfoldingEndpoint(coding, plain, context)


class UnfoldingEndpoint:
    """Stands before the endpoint of `plain`, the same head without the coding."""

    __slots__ = ("_coding", "_context", "_plain", "label")

    def __init__(self, coding: str, plain: RequestHead, context: HttpContext) -> None:
        self.label = plain.endpoint.label
        self._coding = coding
        self._plain = plain
        self._context = context

    def check(self, head: RequestHead) -> None:
        raise AssertionError("the endpoint behind this one has checked the head")

    def start(self, exchange: Exchange, head: RequestHead, body: Buffer, started: int) -> None:
        if not body:  # nothing was coded, so nothing was said
            exchange.begin_anew(self._plain, body)
            return
        if len(body) <= _SMALL_CODED and content_coding.is_loaded(self._coding):
            decoder = content_coding.decoder(self._coding, body, piece=_SMALL)
            piece = decoder.read()
            if decoder.finished:
                check_size(len(piece), self._context)
                exchange.admit(len(piece))
                exchange.begin_anew(self._plain, piece)
                return
        exchange.wait_for(_Unfolding(exchange, self._coding, body, self._plain, self._context))

    def write(
        self, head: RequestHead, request: InferenceRequest, response: InferenceResponse
    ) -> tuple[bytes, Body | Pieces]:
        raise AssertionError("the endpoint behind this one writes the answers")


class _Unfolding:
    """One body being unfolded beside the loop, step by step; between steps it is held against the bounds.

    Few bodies are unfolded at the same time, because each may need a window of several MiB.
    """

    __slots__ = ("_body", "_coding", "_context", "_exchange", "_plain", "_task", "bytes_out")

    def __init__(self, exchange: Exchange, coding: str, body: Buffer, plain: RequestHead, context: HttpContext) -> None:
        self._exchange = exchange
        self._coding = coding
        self._body = body
        self._plain = plain
        self._context = context
        self.bytes_out = 0
        self._task = asyncio.ensure_future(self._run())

    def cancel(self) -> None:
        self._task.cancel()

    def resume(self) -> None:
        """The client reads what it has asked for before; that is no news here."""

    async def _run(self) -> None:
        exchange = self._exchange
        try:
            async with self._context.coders.slots:
                whole = await self._unfold()
        except GuepardError as error:
            exchange.fail_with(error)
        except Exception:
            log.exception("the body of a request to %s could not be unfolded", self._plain.path)
            exchange.fail_with(InternalError("the request could not be served; the server's log says why"))
        else:
            exchange.begin_anew(self._plain, memoryview(whole))

    async def _unfold(self) -> bytearray:
        coders = self._context.coders
        decoder = await coders.run(content_coding.decoder, self._coding, self._body)
        whole = bytearray()
        while not decoder.finished:
            before = len(whole)
            await coders.run(_step, decoder, whole)
            check_size(len(whole), self._context)
            self._exchange.admit(len(whole) - before)
        return whole


def _step(decoder: Decoder, whole: bytearray) -> None:
    """Unfold about one piece more onto `whole`. Runs beside the loop."""
    enough = len(whole) + content_coding.PIECE
    for _ in range(_READS):
        whole += decoder.read()
        if decoder.finished or len(whole) >= enough:
            return


def check_size(size: int, context: HttpContext) -> None:
    limit = context.limits.max_request_bytes
    if size > limit:
        raise PayloadTooLarge(
            f"the request body is larger than {limit} bytes once its Content-Encoding is undone (max_request_bytes)"
        )
