"""One HTTP/1.1 connection: answers its requests in order and keeps to its bounds.

The road of most requests: what came begins with a head that has been seen before, and its body ends it, so reading it
is one look-up (ADR 0002). Everything else goes through the MessageReader.

Requests are answered one after another. Those that a client sends ahead wait in `_ahead`; beyond `_MAX_AHEAD` the
connection is not read from until they are done.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from time import monotonic_ns
from typing import cast

from guepard.core.errors import Draining, GuepardError, InternalError, RequestTimeout, Unsupported
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.engine.taker import Taker
from guepard.protocols.error_body import error_body, http_status
from guepard.server.http import response_writer
from guepard.server.http.access import log_exchange
from guepard.server.http.context import HttpContext
from guepard.server.http.endpoint import Buffer
from guepard.server.http.head_memo import HEAD_END
from guepard.server.http.message_reader import Message, MessageReader
from guepard.server.http.request_head import RequestHead
from guepard.server.http.response_writer import STATUS_LINES
from guepard.server.request_id import new_request_id

log = logging.getLogger(__name__)

_MAX_AHEAD = 16
_VIEW_FROM = 16_384  # bodies from here on are viewed rather than copied out of the read buffer
_LINGER_NS = 2_000_000_000
_DRAIN_PAUSE_NS = 1_000_000_000
# The slowest that a large body may come: so many pauses of body_timeout in all, and 16 KiB/s.
_PAUSES = 10
_NS_PER_BYTE = 1_000_000_000 // 16_384
_CLIENT_CLOSED_REQUEST = 499


class HttpConnection(asyncio.Protocol):
    """The protocol object of one connection. Also the exchange, and the response sender, of its current request."""

    __slots__ = (
        "_advancing",
        "_ahead",
        "_busy",
        "_closing",
        "_context",
        "_eof",
        "_head",
        "_heads",
        "_held",
        "_lingering",
        "_permit",
        "_quiet",
        "_reader",
        "_request",
        "_responses",
        "_since",
        "_started",
        "_taker",
        "_transport",
        "_unsent",
        "_write_paused",
    )

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._heads = context.heads
        self._reader = MessageReader(context, self._take, self._send_continue)
        self._transport: asyncio.Transport | None = None
        # The request being answered.
        self._busy = False
        self._head: RequestHead = context.router.no_head
        self._started = 0
        self._permit = 0
        self._request: InferenceRequest | None = None
        self._taker: Taker
        self._responses: list[InferenceResponse] = []
        # The requests behind it.
        self._ahead: deque[Message] = deque()
        self._advancing = False
        # The connection.
        self._quiet = True  # nothing is being read, answered or waiting
        self._since = monotonic_ns()
        self._closing = False
        self._lingering = False
        self._eof = False
        self._write_paused = 0  # since when the client has not read
        self._unsent = 0
        self._held = 0  # bytes of unread answers that the admission counts

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._context.connections.add(self)
        if self._context.draining:
            self._close()

    def data_received(self, data: bytes) -> None:
        if self._quiet:
            start = data.find(HEAD_END) + 4
            head = self._heads.get(data[:start])
            if head is not None:
                length = head.content_length
                try:
                    if len(data) - start == length:
                        self._context.admission.acquire(length)
                        body = data[start:] if length < _VIEW_FROM else memoryview(data)[start:]
                        self._begin(head, body, monotonic_ns(), length)
                        return
                    if len(data) - start < length:
                        self._reader.collect(head, memoryview(data)[start:])
                        self._quiet = False
                        return
                except GuepardError:
                    pass  # the reader meets the same bound, and knows how to refuse
        self._quiet = False
        self._reader.feed(data)
        self._settle()

    def eof_received(self) -> bool:
        """A client that has finished sending may still be reading: what it asked for is answered first.

        Or it has closed its socket, which looks the same until something is sent to it: see `_probe`.
        """
        self._eof = True
        waits = self._busy or bool(self._ahead)
        if waits:
            self._probe()
        return waits

    def connection_lost(self, exc: Exception | None) -> None:
        context = self._context
        context.forget(self)
        self._transport = None
        context.admission.release(self._permit)
        self._permit = 0
        self._let_go()
        self._drop_ahead()
        self._reader.drop()
        self._reader.deaf = True
        if self._request is not None:
            request, self._request = self._request, None
            self._taker.cancel(request)
            log_exchange(context, self._head, _CLIENT_CLOSED_REQUEST, monotonic_ns(), self._started, 0, request=request)

    def pause_writing(self) -> None:
        """The client does not read what it has asked for, and gets no further answers until it does."""
        self._write_paused = monotonic_ns()
        self._held = self._unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        self._context.admission.hold(self._held)

    def resume_writing(self) -> None:
        self._write_paused = 0
        self._let_go()
        self._advance()
        self._settle()

    def _let_go(self) -> None:
        """What the client had not read counts no more: it has read it, or is gone."""
        self._context.admission.release(self._held)
        self._held = 0

    # Taking requests up

    def _take(self, message: Message) -> None:
        """The reader has a message: answer it now, or after those before it."""
        if self._closing:
            self._context.admission.release(message.permit)
            return
        if not self._busy and not self._ahead and not self._write_paused:
            self._open(message)
            return
        self._ahead.append(message)
        if len(self._ahead) >= _MAX_AHEAD and self._transport is not None:
            self._transport.pause_reading()

    def _send_continue(self) -> None:
        if not self._busy and self._transport is not None:
            self._transport.write(response_writer.CONTINUE)

    def _open(self, message: Message) -> None:
        if message.refusal is None:
            self._begin(message.head, message.body, message.started, message.permit)
            return
        self._busy = True
        self._head = message.head
        self._started = message.started
        self.fail_with(message.refusal)

    def _begin(self, head: RequestHead, body: Buffer, started: int, permit: int) -> None:
        self._quiet = False
        self._busy = True
        self._head = head
        self._started = started
        self._permit = permit
        try:
            head.endpoint.start(self, head, body, started)
        except GuepardError as error:
            self.fail_with(error)
        except Exception:
            log.exception("a request to %s could not be served", head.path)
            if self._busy and self._started == started:
                self.fail_with(InternalError("the request could not be served; the server's log says why"))

    def _settle(self) -> None:
        """Note whether the connection is quiet now, so that a message may be taken up without the reader."""
        if not self._busy and not self._ahead:
            self._quiet = not self._write_paused and self._reader.at_boundary

    def _advance(self) -> None:
        """Take up what was sent ahead, unless the client does not read what it has asked for."""
        if self._advancing:
            return
        self._advancing = True
        while self._ahead and not self._busy and not self._write_paused:
            self._open(self._ahead.popleft())
        self._advancing = False
        if self._transport is not None and len(self._ahead) < _MAX_AHEAD:
            self._transport.resume_reading()

    def _drop_ahead(self) -> None:
        """Forget what was sent ahead: nobody will read the answers."""
        self._context.admission.release(sum([message.permit for message in self._ahead]))
        self._ahead.clear()

    # Answering: Exchange and ResponseSender

    def infer_with(self, request: InferenceRequest, taker: Taker) -> None:
        self._request = request
        self._taker = taker

    def send(self, request: InferenceRequest, response: InferenceResponse, final: bool) -> None:
        if not final:
            self._responses.append(response)
            return
        try:
            headers, body = self._head.endpoint.write(self._head, request, response)
        except GuepardError as error:
            self.fail_with(error)
            return
        except Exception:
            log.exception("an answer of %s could not be written", self._head.path)
            self.fail_with(InternalError("the answer could not be written; the server's log says why"))
            return
        self._reply(200, headers, body, None)

    def finish(self, request: InferenceRequest) -> None:
        responses, self._responses = self._responses, []
        if len(responses) == 1:
            self.send(request, responses[0], final=True)
        else:
            self.fail_with(Unsupported(f"the model gave {len(responses)} responses and this route carries exactly one"))

    def fail(self, request: InferenceRequest, error: GuepardError) -> None:
        self._responses.clear()
        self.fail_with(error)

    def fail_with(self, error: GuepardError) -> None:
        self._reply(http_status(error), response_writer.error_headers(error), (error_body(error),), error)

    def reply(self, status: int, headers: bytes, body: Sequence[bytes | memoryview]) -> None:
        self._reply(status, headers, body, None)

    def _reply(
        self, status: int, headers: bytes, body: Sequence[bytes | memoryview], error: GuepardError | None
    ) -> None:
        transport = self._transport
        if transport is None:
            return
        context = self._context
        head = self._head
        length = 0
        for part in body:
            length += len(part)
        if not head.keep_alive or (not self._ahead and (self._eof or context.draining or self._reader.deaf)):
            self._closing = True
            headers += response_writer.CLOSE
        elif head.version == "1.0":
            headers += response_writer.KEEP_ALIVE
        request_id = None
        if head.request_id:
            headers += b"x-request-id: %b\r\n" % head.request_id
        elif error is not None:
            request_id = new_request_id()
            headers += b"x-request-id: %b\r\n" % request_id.encode()
        top = b"%b%b%bcontent-length: %d\r\n\r\n" % (STATUS_LINES[status], context.date.line, headers, length)
        if head.is_head:
            transport.write(top)
        elif length <= response_writer.JOIN_LIMIT:
            transport.write(b"".join((top, *body)))
        else:
            transport.writelines([top, *body])
        self._done(status, length, error, request_id)

    def _done(self, status: int, bytes_out: int, error: GuepardError | None, request_id: str | None) -> None:
        """The answer is on its way: count it, then go on to the next request or close."""
        context = self._context
        head = self._head
        now = monotonic_ns()
        started = self._started
        context.metrics.record_call(head.endpoint.label, status, now - started)
        if error is not None or context.access_log.wants(now):
            log_exchange(
                context,
                head,
                status,
                now,
                started,
                bytes_out,
                request_id=request_id,
                request=self._request,
                error=error,
            )
        context.admission.release(self._permit)
        self._permit = 0
        self._request = None
        self._busy = False
        self._since = now
        if self._closing:
            self._drop_ahead()
            self._close()
        elif self._ahead:
            self._advance()
        else:
            self._settle()
            if not self._quiet and self._reader.awaits_leave:
                self._send_continue()

    # The end

    def _close(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if self._reader.deaf and not self._eof:
            # The client may still be sending: closing now would reset the connection under the answer.
            self._lingering = True
            self._since = monotonic_ns()
            transport.write_eof()
        else:
            transport.close()

    def drain(self) -> None:
        """Close now if nothing is being received or answered, else with the last answer."""
        if not self._busy and not self._ahead and self._reader.incoming is None:
            self._close()

    def _probe(self) -> None:
        """Find out whether a client that has stopped sending is still there, by an interim answer.

        A client that reads on skips it, as RFC 9110 section 15.2 demands. The kernel of one that has closed its socket
        answers with a reset, which ends the connection at the next probe, and its request with it.
        """
        if self._transport is not None and self._head.version == "1.1":
            self._transport.write(response_writer.CONTINUE)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now: int) -> None:
        """Enforce the time limits. To be called about once a second."""
        limits = self._context.limits
        reader = self._reader
        if self._lingering:
            if now - self._since > _LINGER_NS:
                self.abort()
        elif self._write_paused:
            self._sweep_unread(now)
        elif self._busy or self._ahead:
            if self._eof:
                self._probe()
        elif reader.incoming is not None:
            pause, whole = now - reader.since, now - reader.body_since
            allowed = limits.body_timeout_ns
            if self._context.draining and pause > _DRAIN_PAUSE_NS:
                reader.refuse(Draining("the server is shutting down and the request body has not come"))
            elif pause > allowed or whole > _PAUSES * allowed + reader.received * _NS_PER_BYTE:
                reader.refuse(RequestTimeout("the request body did not arrive in time (body_timeout)"))
        elif reader.head_bytes:
            if now - reader.head_since > limits.header_timeout_ns:
                reader.refuse(RequestTimeout("the request head did not arrive in time (header_timeout)"))
        else:
            first = self._head is self._context.router.no_head
            if now - self._since > (limits.header_timeout_ns if first else limits.keep_alive_ns):
                self._close()

    def _sweep_unread(self, now: int) -> None:
        """Give up on a client that has not read a byte of its answers for as long as a body may take to go on."""
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        if unsent < self._unsent:
            self._unsent = unsent
            self._write_paused = now
        elif now - self._write_paused > self._context.limits.body_timeout_ns:
            self.abort()
