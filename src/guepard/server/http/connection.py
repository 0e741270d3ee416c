"""One HTTP/1.1 connection: answers its requests in order and keeps to its bounds.

The road of most requests: what came begins with a head that has been seen before, and its body ends it, so reading it
is one look-up (ADR 0002). Everything else goes through the MessageReader.

Requests are answered one after another; those that a client sends ahead wait in `_ahead`.
"""

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic_ns
from typing import cast

from guepard.core.errors import GuepardError, InternalError
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.engine.taker import Taker
from guepard.protocols.error_body import error_body
from guepard.server.http import answer_coding, response_writer
from guepard.server.http.access import log_exchange
from guepard.server.http.ahead import Ahead
from guepard.server.http.answer_coding import BodyPieces
from guepard.server.http.backlog import Backlog
from guepard.server.http.body_receiver import BodyReceiver
from guepard.server.http.coders import Coders
from guepard.server.http.context import HttpContext
from guepard.server.http.endpoint import Buffer, Pieces, Work
from guepard.server.http.head_memo import HEAD_END
from guepard.server.http.message_reader import Message, MessageReader
from guepard.server.http.piece_sender import PieceSender
from guepard.server.http.request_head import RequestHead
from guepard.server.http.response_writer import LENGTH_LINES, STATUS_LINES
from guepard.server.inference_exchange import refuse_beyond
from guepard.server.request_id import new_request_id
from guepard.server.single_response import SingleResponse
from guepard.telemetry.metrics import RouteCalls

log = logging.getLogger(__name__)

_VIEW_FROM = 16_384  # bodies from here on are viewed rather than copied out of the read buffer
_DIRECT_FROM = 262_144  # missing of a body, more than what comes with the next read
_LINGER_NS = 2_000_000_000
_CLIENT_CLOSED_REQUEST = 499


class HttpConnection(SingleResponse, asyncio.Protocol):
    """The protocol object of one connection. Also the exchange, and the response sender, of its current request."""

    __slots__ = (
        "_admission",
        "_advancing",
        "_ahead",
        "_backlog",
        "_busy",
        "_closing",
        "_context",
        "_eof",
        "_head",
        "_heads",
        "_lingering",
        "_permit",
        "_quiet",
        "_reader",
        "_request",
        "_request_id",
        "_since",
        "_started",
        "_taker",
        "_transport",
        "_work",
    )

    _carrier = "route"

    def __init__(self, context: HttpContext) -> None:
        super().__init__()
        self._context = context
        self._admission = context.admission
        self._heads = context.heads
        self._reader = MessageReader(context, self._take, self._send_continue)
        self._transport: asyncio.Transport | None = None
        # The request being answered.
        self._busy = False
        self._head: RequestHead = context.router.no_head
        self._started = 0
        self._permit = 0
        self._request: InferenceRequest | None = None
        self._request_id: str | None = None  # the one that an error was given
        self._taker: Taker
        self._work: Work | None = None
        # The requests behind it.
        self._ahead = Ahead()
        self._advancing = False
        # The connection.
        self._quiet = True  # beside the request being answered nothing goes on: nothing is read, waits or ends
        self._since = monotonic_ns()
        self._closing = False
        self._lingering = False
        self._eof = False
        self._backlog = Backlog(context.admission)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._context.connections.add(self)
        if self._context.draining:
            self._close()

    def data_received(self, data: bytes) -> None:
        if self._quiet and not self._busy:
            start = data.find(HEAD_END) + 4
            head = self._heads.get(data[:start])
            if head is not None:
                length = head.content_length
                try:
                    if len(data) - start == length:
                        self._admission.acquire(length)
                        body = data[start:] if length < _VIEW_FROM else memoryview(data)[start:]
                        self._begin(head, body, monotonic_ns(), length)
                        return
                    if len(data) - start < length:
                        self._reader.collect(head, memoryview(data)[start:])
                        self._quiet = False
                        self._receive_directly()
                        return
                except GuepardError:
                    pass  # the reader meets the same bound, and knows how to refuse
        self._quiet = False
        self._reader.feed(data)
        self._receive_directly()
        self._settle()

    def eof_received(self) -> bool:
        """A client that has finished sending may still be reading: what it asked for is answered first.

        Or it has closed its socket, which looks the same until something is sent to it: see `_probe`.
        """
        self._eof = True
        self._quiet = False
        self._probe()
        return self._busy or bool(self._ahead)

    def connection_lost(self, exc: Exception | None) -> None:
        context = self._context
        context.forget(self)
        self._transport = None
        self._admission.release(self._permit)
        self._permit = 0
        self._backlog.end()
        self._ahead.drop(self._admission)
        self._reader.drop()
        self._reader.deaf = True
        request, self._request = self._request, None
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
        elif request is not None:
            self._taker.cancel(request)
        if work is not None or request is not None:
            out, now = (work.bytes_out if work is not None else 0), monotonic_ns()
            log_exchange(context, self._head, _CLIENT_CLOSED_REQUEST, now, self._started, out, request=request)

    def pause_writing(self) -> None:
        """The client does not read what it has asked for, and gets no further answers until it does."""
        self._quiet = False
        self._backlog.begin(self._unread, monotonic_ns())

    def resume_writing(self) -> None:
        self._backlog.end()
        if self._work is not None:
            self._work.resume()
        self._advance()
        self._settle()

    # Large bodies

    def _receive_directly(self) -> None:
        """Have the kernel write what is missing of a large body where it will lie."""
        if self._reader.missing >= _DIRECT_FROM and self._transport is not None:
            self._transport.set_protocol(BodyReceiver(self))

    def body_room(self, size: int) -> memoryview | None:
        return self._reader.room(size) if self._reader.missing else None

    def body_came(self, size: int) -> None:
        if size == self._reader.missing and self._transport is not None:
            self._transport.set_protocol(self)
        self._reader.advance(size)
        self._settle()

    def body_ended(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.set_protocol(self)
        self.data_received(data)

    # Taking requests up

    def _take(self, message: Message) -> None:
        """The reader has a message: answer it now, or after those before it."""
        if self._closing:
            self._admission.release(message.permit)
            return
        if not self._busy and not self._ahead and not self._backlog.since:
            self._open(message)
            return
        self._ahead.wait(message, self._transport)

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
            reader = self._reader
            waits = self._backlog.since or reader.incoming or reader.head_bytes
            self._quiet = not (waits or reader.deaf or self._eof or self._context.draining)

    def _advance(self) -> None:
        """Take up what was sent ahead, unless the client does not read what it has asked for."""
        if self._advancing:
            return
        self._advancing = True
        while self._ahead and not self._busy and not self._backlog.since:
            self._open(self._ahead.popleft())
        self._advancing = False
        self._ahead.ask_for_more(self._transport)

    # Answering: Exchange, ResponseSender and Outlet

    def admit(self, size: int) -> None:
        self._admission.acquire(size, held=self._permit)
        self._permit += size

    def wait_for(self, work: Work | None) -> None:
        self._work = work

    @property
    def decoders(self) -> Coders:
        return self._context.decoders

    def begin_anew(self, head: RequestHead, body: Buffer) -> None:
        self._work = None
        self._begin(head, body, self._started, self._permit)

    def infer_with(self, request: InferenceRequest, taker: Taker) -> None:
        self._request = request
        self._taker = taker

    def hold(self, size: int) -> None:
        refuse_beyond(self._context.limits.max_request_bytes, self._permit + size)
        self.admit(size)

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
        if isinstance(body, Pieces):
            self._send_pieces(200, headers, body, None)
        else:
            self._reply(200, headers, body, None)

    def fail_with(self, error: GuepardError) -> None:
        self._work = None
        status = self._context.statuses.http(error)
        self._reply(status, response_writer.error_headers(error), (error_body(error),), error)

    def reply(self, status: int, headers: bytes, body: Sequence[bytes | memoryview]) -> None:
        self._reply(status, headers, body, None)

    def _reply(
        self, status: int, headers: bytes, body: Sequence[bytes | memoryview], error: GuepardError | None
    ) -> None:
        transport = self._transport
        if transport is None:
            return
        head = self._head
        length = sum(map(len, body))
        if length < head.plain_below and self._quiet and error is None:  # nearly all answers
            context = self._context
            transport.write(b"".join((STATUS_LINES[status], context.date.line, headers, LENGTH_LINES[length], *body)))
            self._done(status, length, None)
            return
        if length >= head.coded_from:
            coded = answer_coding.apply(head, headers, body, length)
            if coded is None:
                self._send_pieces(status, headers, BodyPieces(body), error)
                return
            headers, body, length = coded
        top = self._top(status, headers, LENGTH_LINES[length] if length >= 0 else b"\r\n", error)
        if head.is_head:
            transport.write(b"".join(top))
            length = 0
        elif length <= response_writer.JOIN_LIMIT:
            transport.write(b"".join((*top, *body)))
        else:
            transport.writelines([b"".join(top), *body])
        self._done(status, length, error)

    def _top(self, status: int, headers: bytes, framing: bytes, error: GuepardError | None) -> tuple[bytes, ...]:
        """The head of an answer, to be joined. `framing` is its last header line, and the empty line."""
        head, context = self._head, self._context
        ends = self._eof or context.draining or self._reader.deaf
        own = b""
        if not head.keep_alive or (ends and not self._ahead):
            self._closing = True
            own = response_writer.CLOSE
        elif head.version == "1.0":
            own = response_writer.KEEP_ALIVE
        if head.request_id:
            own += b"x-request-id: %b\r\n" % head.request_id
        elif error is not None:
            self._request_id = new_request_id()
            own += b"x-request-id: %b\r\n" % self._request_id.encode()
        return STATUS_LINES[status], context.date.line, headers, own, framing

    # Answers in pieces

    def _send_pieces(self, status: int, headers: bytes, source: Pieces, error: GuepardError | None) -> None:
        self._work = PieceSender(self, self._context.coders, self._head, status, headers, source, error)

    @property
    def is_blocked(self) -> bool:
        return self._backlog.since > 0

    def begin_answer(self, status: int, headers: bytes, framing: bytes, error: GuepardError | None) -> None:
        self.write_pieces([b"".join(self._top(status, headers, framing, error))])

    def write_pieces(self, data: list[bytes | memoryview]) -> None:
        if self._transport is not None:
            self._transport.writelines(data)

    def end_answer(self, status: int, bytes_out: int, error: GuepardError | None) -> None:
        self._work = None
        # What has come to pass since its head went out, which could not say so.
        if not self._ahead and (self._eof or self._context.draining or self._reader.deaf):
            self._closing = True
        self._done(status, bytes_out, error)

    def _done(self, status: int, bytes_out: int, error: GuepardError | None) -> None:
        """The answer is on its way: count it, then go on to the next request or close."""
        context = self._context
        head = self._head
        now = monotonic_ns()
        started = self._started
        calls = head.calls or self._calls_of(head)
        calls[status].append(now - started)
        if error is not None or context.access_log.wants(now):
            request, request_id, self._request_id = self._request, self._request_id, None
            log_exchange(
                context, head, status, now, started, bytes_out, request_id=request_id, request=request, error=error
            )
        self._admission.release(self._permit)
        self._permit = 0
        self._request = None
        self._busy = False
        self._since = now
        if self._closing:
            self._ahead.drop(self._admission)
            self._close()
        elif self._ahead:
            self._advance()
        elif not self._quiet:
            self._settle()
            if not self._quiet and self._reader.awaits_leave:
                self._send_continue()

    def _calls_of(self, head: RequestHead) -> RouteCalls:
        head.calls = self._context.metrics.calls(head.endpoint.label)
        return head.calls

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
        self._quiet = False
        if not self._busy and not self._ahead and self._reader.incoming is None:
            self._close()

    def _probe(self) -> None:
        """Find out whether a client that has stopped sending is still there, by an interim answer before its answer.

        A client that reads on skips it, as RFC 9110 section 15.2 demands. The kernel of one that has closed its socket
        answers with a reset, which ends the connection at the next probe, and its request with it.
        """
        waits = self._eof and (self._busy or self._ahead) and self._work is None
        if waits and self._transport is not None and self._head.version == "1.1":
            self._transport.write(response_writer.CONTINUE)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def _unread(self) -> int:
        """Bytes of answers that the client has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def sweep(self, now: int) -> None:
        """Enforce the time limits. To be called about once a second."""
        limits = self._context.limits
        if self._lingering:
            if now - self._since > _LINGER_NS:
                self.abort()
        elif self._backlog.since:
            if self._backlog.is_hopeless(self._unread, now, limits.body_timeout_ns):
                self.abort()
        elif self._busy or self._ahead:
            self._probe()
        elif not self._reader.sweep(now):
            first = self._head is self._context.router.no_head
            if now - self._since > (limits.header_timeout_ns if first else limits.keep_alive_ns):
                self._close()
