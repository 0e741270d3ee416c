"""Bytes of one connection into requests, without a socket.

Messages whose head is known already do not pass here: the connection looks them up in the HeadMemo, which this reader
fills. Everything else goes through httptools, which is strict about framing: two lengths, a length with a sign, bare
line feeds and folded headers are all refused.
"""

import logging
from collections.abc import Callable
from time import monotonic_ns
from typing import NamedTuple

import httptools
import numpy as np

from guepard.core.errors import (
    Draining,
    ExpectationFailed,
    GuepardError,
    HeadersTooLarge,
    InputError,
    InternalError,
    PayloadTooLarge,
    RequestTimeout,
    Unsupported,
)
from guepard.server.http.context import HttpContext
from guepard.server.http.endpoint import Buffer
from guepard.server.http.request_head import Header, RequestHead
from guepard.server.http.unfolding import unfold_first

log = logging.getLogger(__name__)

_DRAIN_PAUSE_NS = 1_000_000_000
# The slowest that a large body may come: so many pauses of body_timeout in all, and 16 KiB/s.
_PAUSES = 10
_NS_PER_BYTE = 1_000_000_000 // 16_384
_LARGE_REST = 262_144  # what is missing of a body from here on is collected without the parser
_POOLED_FROM = 262_144  # bodies from here on do not come in one piece and are collected in a lease (ADR 0020)
_SMALL_BODY = 65_536  # a refused body up to here is read and dropped, so that the connection can go on


class Message(NamedTuple):
    """A request that has come whole, or was refused as far as it came.

    `permit` is how many bytes of the admission it holds; whoever answers it gives them back.
    """

    head: RequestHead
    body: Buffer
    started: int
    permit: int
    refusal: GuepardError | None


class MessageReader:
    """Feeds `emit` with messages in order. After a refusal that ends the connection it is `deaf`: it drops all data.

    `send_continue` is called when a client waits for leave to send its body. `since` is when data last came, and
    `head_since` when the head that is not complete began.
    """

    __slots__ = (
        "_body",
        "_context",
        "_emit",
        "_expects_first",
        "_filled",
        "_first_head",
        "_framing_bytes",
        "_headers",
        "_parser",
        "_refusal",
        "_send_continue",
        "_target",
        "body_since",
        "deaf",
        "head_bytes",
        "head_since",
        "incoming",
        "since",
    )

    def __init__(
        self, context: HttpContext, emit: Callable[[Message], None], send_continue: Callable[[], None]
    ) -> None:
        self._context = context
        self._emit = emit
        self._send_continue = send_continue
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: list[Header] = []
        self._body: Buffer = b""
        self._filled = -1  # bytes of `_body` that have come, while it is collected without the parser
        self._framing_bytes = 0  # what has come of a chunked message since its last byte of body
        self._refusal: GuepardError | None = None
        self._expects_first = True  # whether no head has been completed by the data being fed
        self._first_head: RequestHead | None = None  # the first that was, unless it was refused
        self.incoming: RequestHead | None = None  # the head of the message whose body is being read
        self.head_bytes = 0  # what has come of a head that is not complete
        self.head_since = 0
        self.since = monotonic_ns()
        self.body_since = self.since
        self.deaf = False

    @property
    def at_boundary(self) -> bool:
        """Whether nothing of a next message has come."""
        return self.incoming is None and self.head_bytes == 0 and not self.deaf

    @property
    def awaits_leave(self) -> bool:
        """Whether a client may be waiting for leave to send its body."""
        return self.incoming is not None and self.incoming.expects_continue and not self._body

    @property
    def received(self) -> int:
        """Bytes of the body that have come."""
        return len(self._body) if self._filled < 0 else self._filled

    @property
    def missing(self) -> int:
        """Bytes that have not come of a body that is collected without the parser."""
        return len(self._body) - self._filled if self._filled >= 0 else 0

    def feed(self, data: bytes) -> None:
        if self.deaf:
            return
        if self._filled >= 0:
            self._collect(data)
            return
        fresh = self.at_boundary
        self.since = monotonic_ns()
        if self.incoming is None:
            if not self.head_bytes:
                self.head_since = self.since
            self.head_bytes += len(data)
        self._framing_bytes += len(data)
        self._expects_first = True
        self._first_head = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            if not self.deaf:
                self.refuse(self._malformed(error))
            return
        if self.incoming is None and self.head_bytes > self._context.limits.max_head_bytes:
            self.refuse(self._head_too_large())
        elif self.incoming is not None and self._framing_bytes > self._context.limits.max_head_bytes:
            self.refuse(HeadersTooLarge("chunk extensions or trailers are too large"))
        elif fresh and self._first_head is not None:
            self._context.heads.remember(data, self._first_head)
        if self.incoming is not None and self._body and self.incoming.content_length >= _LARGE_REST:
            self._go_on_without_parser(self.incoming)

    def collect(self, head: RequestHead, start: bytes | memoryview) -> None:
        """Take up a message of which the known `head` and the `start` of the body have come: it needs no parser.

        Raises: Overloaded, and then nothing was taken.
        """
        self._context.admission.acquire(head.content_length)
        self.incoming = head
        self._refusal = None
        self._body = self._room_for(head.content_length)
        self._filled = 0
        self.body_since = monotonic_ns()
        self._collect(start)

    def room(self, size: int) -> memoryview:
        """Where the next bytes of a body belong of which some are `missing`, `size` at most."""
        body = self._body
        assert isinstance(body, memoryview)
        return body[self._filled : self._filled + size]

    def advance(self, size: int) -> None:
        """So many bytes have been written into the `room`."""
        self.since = monotonic_ns()
        self._filled += size
        if self._filled == len(self._body):
            self._filled = -1
            self._complete()

    def refuse(self, error: GuepardError) -> None:
        """Give up on the message that is being read, emit `error` in its stead and read no further."""
        head = self.incoming or self._context.router.no_head
        self.drop()
        self.deaf = True
        self._emit(Message(head, b"", self.since, 0, error))

    def drop(self) -> None:
        """Forget the message that is being read, and give back what it holds of the admission."""
        if self.incoming is not None and self._refusal is None:
            self._context.admission.release(max(self.incoming.content_length, len(self._body)))
        self._filled = -1
        self._forget()

    def sweep(self, now: int) -> bool:
        """Refuse what comes too slowly. False when nothing is being read. To be called about once a second."""
        limits = self._context.limits
        if self.incoming is not None:
            pause, whole = now - self.since, now - self.body_since
            allowed = limits.body_timeout_ns
            if self._context.draining and pause > _DRAIN_PAUSE_NS:
                self.refuse(Draining("the server is shutting down and the request body has not come"))
            elif pause > allowed or whole > _PAUSES * allowed + self.received * _NS_PER_BYTE:
                self.refuse(RequestTimeout("the request body did not arrive in time (body_timeout)"))
            return True
        if self.head_bytes:
            if now - self.head_since > limits.header_timeout_ns:
                self.refuse(RequestTimeout("the request head did not arrive in time (header_timeout)"))
            return True
        return False

    # What httptools calls. What is raised here would be lost, so nothing is.

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = []
        self._refusal = None
        if not self.head_bytes:  # it follows another one in the same data
            self.head_bytes = 1
            self.head_since = self.since

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.incoming is None:  # else a trailer, which means nothing here
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.deaf:
            return
        is_first, self._expects_first = self._expects_first, False
        self._framing_bytes = 0
        context = self._context
        parser = self._parser
        size = len(self._target) + sum([len(name) + len(value) + 4 for name, value in self._headers])
        if size > context.limits.max_head_bytes or len(self._headers) > context.limits.max_headers:
            self.refuse(self._head_too_large())
            return
        try:
            head = RequestHead(
                parser.get_method().decode("latin-1"),
                self._target,
                self._headers,
                version=parser.get_http_version(),
                keep_alive=parser.should_keep_alive(),
            )
        except GuepardError as error:
            self.refuse(error)
            return
        try:
            self._admit(head)
        except GuepardError as error:
            self._refusal = error
        except Exception:
            log.exception("a request to %s could not be judged by its head", head.path)
            self._refusal = InternalError("the request could not be served; the server's log says why")
        self.incoming = head
        self.body_since = self.since
        self.head_bytes = 0
        if self._refusal is None:
            if is_first:
                self._first_head = head
            if head.expects_continue:
                self._send_continue()
        elif head.is_chunked or b"expect" in head.headers or head.content_length > _SMALL_BODY:
            self.refuse(self._refusal)

    def on_body(self, data: bytes) -> None:
        self._framing_bytes = 0
        head = self.incoming
        if self.deaf or head is None or self._refusal is not None:
            return
        body = self._body
        if head.is_chunked:
            try:
                if len(body) + len(data) > self._context.limits.max_request_bytes:
                    raise self._body_too_large()
                self._context.admission.acquire(len(data), held=len(body))
            except GuepardError as error:
                self.refuse(error)
                return
        if not body:
            self._body = data
        elif isinstance(body, bytearray):
            body += data
        else:
            self._body = bytearray(body)
            self._body += data

    def on_message_complete(self) -> None:
        if self.incoming is not None and not self.deaf and not self._parser.should_upgrade():
            self._complete()

    # From a head to a message

    def _admit(self, head: RequestHead) -> None:
        """Everything that the head alone decides, before the body is read. Raises: GuepardError."""
        context = self._context
        head.endpoint = context.router.unmatched
        if head.version not in ("1.1", "1.0"):
            raise InputError(f"HTTP/{head.version} is not spoken here; use HTTP/1.1")
        _check_framing(head)
        head.endpoint = context.router.resolve(head)
        if b"expect" in head.headers and not head.expects_continue:
            raise ExpectationFailed("the only expectation that can be met is 100-continue")
        if head.content_length > context.limits.max_request_bytes:
            raise self._body_too_large()
        head.endpoint.check(head)
        if b"content-encoding" in head.headers:
            unfold_first(head, context)
        context.admission.acquire(head.content_length)

    def _room_for(self, size: int) -> memoryview:
        """Memory for a body, not touched until its bytes are there. Ownership: whatever views it keeps it."""
        buffers = self._context.buffers
        if buffers is not None and size >= _POOLED_FROM:
            return buffers.lease(size)
        return np.empty(size, np.uint8).data

    def _collect(self, data: bytes | memoryview) -> None:
        size = min(len(data), self.missing)
        self.room(size)[:] = data[:size]
        self.advance(size)
        rest = bytes(data[size:])
        if rest:
            self.feed(rest)

    def _go_on_without_parser(self, head: RequestHead) -> None:
        """Collect the rest of a large body, of which the parser would make pieces to be joined again."""
        begun = self._body
        if head.is_chunked or head.upgrades or self._refusal is not None:
            return
        if head.content_length - len(begun) < _LARGE_REST:
            return
        self._parser = httptools.HttpRequestParser(self)
        self._body = self._room_for(head.content_length)
        self._filled = 0
        self._collect(memoryview(begun))

    def _complete(self) -> None:
        head, body, refusal = self.incoming, self._body, self._refusal
        assert head is not None
        self._forget()
        permit = 0 if refusal is not None else max(head.content_length, len(body))
        self._emit(Message(head, body, self.since, permit, refusal))

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """A client offers another protocol, h2c for instance: its head is read again without the offer.

        CONNECT, which asks for a tunnel, ends the connection.
        """
        self._parser = httptools.HttpRequestParser(self)
        head = self.incoming
        if self.deaf or head is None:
            return
        if head.method == "CONNECT":
            self.refuse(self._refusal or InputError("CONNECT is not served"))
            return
        self.drop()
        self.feed(head.without_upgrade() + rest)

    def _forget(self) -> None:
        self.incoming = None
        self._body = b""
        self.head_bytes = 0

    def _malformed(self, error: httptools.HttpParserError) -> InputError:
        if self._parser.get_method() == b"PRI":
            return InputError("HTTP/2 is not spoken here; use HTTP/1.1")
        return InputError(f"malformed HTTP request: {error}")

    def _body_too_large(self) -> PayloadTooLarge:
        limit = self._context.limits.max_request_bytes
        return PayloadTooLarge(f"the request body is larger than {limit} bytes (max_request_bytes)")

    def _head_too_large(self) -> HeadersTooLarge:
        limits = self._context.limits
        return HeadersTooLarge(
            f"the request head is larger than {limits.max_head_bytes} bytes or has over {limits.max_headers} headers"
        )


def _check_framing(head: RequestHead) -> None:
    """What the parser lets pass and a proxy in front may read another way. Raises: InputError, Unsupported."""
    if head.version == "1.1" and b"host" not in head.headers:
        raise InputError("the Host header is missing; HTTP/1.1 needs one")
    if head.is_chunked:
        if head.version == "1.0":
            raise InputError("HTTP/1.0 has no Transfer-Encoding; send Content-Length or use HTTP/1.1")
        coding = head.headers[b"transfer-encoding"]
        if coding.lower() != b"chunked":
            raise Unsupported(f"Transfer-Encoding: {coding.decode('latin-1')[:64]!r} is not read; send chunked alone")
