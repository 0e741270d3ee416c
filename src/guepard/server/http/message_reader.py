"""Bytes of one connection into requests, without a socket.

The road of a repeated request is the connection's: it compares what came with `memo` and needs no reader. Everything
else goes through httptools, which is strict about framing: two lengths, a length with a sign, bare line feeds and
folded headers are all refused.
"""

from collections.abc import Callable
from time import monotonic_ns
from typing import NamedTuple

import httptools

from guepard.core.errors import (
    ExpectationFailed,
    GuepardError,
    HeadersTooLarge,
    InputError,
    PayloadTooLarge,
)
from guepard.server.http.context import HttpContext
from guepard.server.http.endpoint import Buffer
from guepard.server.http.request_head import Header, RequestHead

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
        "_filled",
        "_headers",
        "_parser",
        "_refusal",
        "_send_continue",
        "_target",
        "_whole",
        "deaf",
        "head_bytes",
        "head_since",
        "incoming",
        "memo",
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
        self._refusal: GuepardError | None = None
        self._whole: RequestHead | None = None  # of the last message that came whole
        self.memo: RequestHead | None = None
        self.incoming: RequestHead | None = None  # the head of the message whose body is being read
        self.head_bytes = 0  # what has come of a head that is not complete
        self.head_since = 0
        self.since = monotonic_ns()
        self.deaf = False

    @property
    def at_boundary(self) -> bool:
        """Whether nothing of a next message has come."""
        return self.incoming is None and self.head_bytes == 0 and not self.deaf

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
        self._whole = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            if not self.deaf:
                self.refuse(InputError(f"malformed HTTP request: {error}"))
            return
        if self.incoming is None and self.head_bytes > self._context.limits.max_head_bytes:
            self.refuse(self._head_too_large())
        elif fresh and self._whole is not None and self.at_boundary:
            self._remember(self._whole, data)

    def collect(self, memo: RequestHead, data: bytes) -> None:
        """Take up a message that begins with the head of `memo` but is not whole: its body needs no parser.

        Raises: Overloaded, and then nothing was taken.
        """
        self._context.admission.acquire(memo.content_length)
        self.incoming = memo
        self._refusal = None
        self._body = bytearray(memo.content_length)
        self._filled = 0
        self._collect(memoryview(data)[len(memo.wire) :])

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

    # What httptools calls. What is raised here would be lost, so nothing is.

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = []
        self._refusal = None

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.incoming is None:  # else a trailer, which means nothing here
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.deaf:
            return
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
        self.incoming = head
        self.head_bytes = 0
        if self._refusal is None:
            if head.expects_continue:
                self._send_continue()
        elif head.is_chunked or head.expects_continue or head.content_length > _SMALL_BODY:
            self.refuse(self._refusal)

    def on_body(self, data: bytes) -> None:
        head = self.incoming
        if self.deaf or head is None or self._refusal is not None:
            return
        body = self._body
        if head.is_chunked:
            try:
                if len(body) + len(data) > self._context.limits.max_request_bytes:
                    raise self._body_too_large()
                self._context.admission.acquire(len(data))
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
        head.endpoint = context.router.resolve(head)
        if b"expect" in head.headers and not head.expects_continue:
            raise ExpectationFailed("the only expectation that can be met is 100-continue")
        if head.content_length > context.limits.max_request_bytes:
            raise self._body_too_large()
        head.endpoint.check(head)
        context.admission.acquire(head.content_length)

    def _collect(self, data: bytes | memoryview) -> None:
        body = self._body
        start = self._filled
        end = min(start + len(data), len(body))
        body[start:end] = data[: end - start]  # type: ignore[index]
        self.since = monotonic_ns()
        if end < len(body):
            self._filled = end
            return
        self._filled = -1
        self._complete()
        rest = bytes(data[end - start :])
        if rest:
            self.feed(rest)

    def _complete(self) -> None:
        head, body, refusal = self.incoming, self._body, self._refusal
        assert head is not None
        self._whole = head
        self._forget()
        permit = 0 if refusal is not None else max(head.content_length, len(body))
        self._emit(Message(head, body, self.since, permit, refusal))

    def _remember(self, head: RequestHead, data: bytes) -> None:
        """Keep `head` for later requests if `data` was one message with it, and the head's bytes are thus known."""
        size = len(data) - head.content_length
        reusable = head.keep_alive and not head.is_chunked and not head.expects_continue
        if reusable and data.find(b"\r\n\r\n") == size - 4:
            head.wire = data[:size]
            head.wire_length = len(data)
            self.memo = head

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

    def _body_too_large(self) -> PayloadTooLarge:
        limit = self._context.limits.max_request_bytes
        return PayloadTooLarge(f"the request body is larger than {limit} bytes (max_request_bytes)")

    def _head_too_large(self) -> HeadersTooLarge:
        limits = self._context.limits
        return HeadersTooLarge(
            f"the request head is larger than {limits.max_head_bytes} bytes or has over {limits.max_headers} headers"
        )
