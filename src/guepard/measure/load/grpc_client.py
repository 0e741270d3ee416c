"""Unary gRPC calls over HTTP/2, many at once on each connection.

A call with a short answer costs three frames to read and one entry among those that leave together. 32 calls at once on
one connection take 7 µs of CPU each against a server that only answers, h2load 3 µs; where answers come one by one, the
kernel's part of waking, reading and sending, some 35 µs, is most of it for both.

Source: gRPC's PROTOCOL-HTTP2.md. Where a proxy answered with an HTTP status and no gRPC status, the outcome is the HTTP
status itself, not what gRPC's http-grpc-status-mapping.md would make of it.
"""

import re
import time
from collections.abc import Iterator

from guepard.measure.load import http2_frames as h2
from guepard.measure.load.client import Address, SlotOwner
from guepard.measure.load.dial import Route
from guepard.measure.load.grpc_connection import GrpcConnection
from guepard.measure.load.http2_connection import RequestForm
from guepard.measure.load.http2_headers import Field, ReplyHead, header_block
from guepard.measure.load.journal import SAMPLE_EVERY
from guepard.measure.load.outcomes import GRPC_BASE, End
from guepard.measure.load.plan import LoadPlan, Payload
from guepard.measure.load.tls import tls_context

_MOST_STREAMS = 100
_CANCELLED, _DEADLINE_EXCEEDED, _INTERNAL = 1, 4, 13
_OF_RESETS = {h2.REFUSED_STREAM: 14, h2.ENHANCE_YOUR_CALM: 8, h2.INADEQUATE_SECURITY: 7}
"""Statuses for streams that were reset without one; every other code means INTERNAL."""
_TIMEOUT_UNITS = ((1, "n"), (1_000, "u"), (1_000_000, "m"), (1_000_000_000, "S"))
_LONGEST_TIMEOUT = 10**8


class GrpcClient:
    """Opens slots to one address. `address` is what `socket.connect` takes, its family beside it."""

    def __init__(self, plan: LoadPlan, owner: SlotOwner, family: int, address: Address) -> None:
        endpoint = plan.endpoint
        tls = tls_context(endpoint, ("h2",)) if endpoint.tls else None
        self.owner = owner
        self.route = Route(family, address, tls, endpoint.host_name or endpoint.host, "h2")
        self.forms = [
            RequestForm(header_block(_request_fields(plan, payload)), len(payload.data)) for payload in plan.payloads
        ]
        self.timeout_ns = plan.timeout_ns
        self.expect = re.compile(plan.reply.expect.encode()) if plan.reply.expect else None
        self.keeps_timing = plan.server_timing
        self.answers = 0
        self.streams_per_connection = plan.streams_per_connection or _MOST_STREAMS
        self.most_streams = self.streams_per_connection
        """As the server last said."""
        self._connections: set[GrpcConnection] = set()
        self._filling: GrpcConnection | None = None

    def open_slot(self) -> "GrpcSlot":
        return GrpcSlot(self)

    def seat(self, slot: "GrpcSlot") -> GrpcConnection:
        """Give `slot` a connection. A seat is kept as long as its connection is usable."""
        connection = self._filling
        if connection is None or not connection.is_usable or connection.seats >= connection.capacity:
            connection = self._filling = GrpcConnection(self)
            self._connections.add(connection)
        connection.seats += 1
        slot.connection = connection
        return connection

    def forget(self, connection: GrpcConnection) -> None:
        self._connections.discard(connection)

    def close(self) -> None:
        for connection in list(self._connections):
            connection.close()


class GrpcSlot:
    """One call at a time, on a stream of its own of a connection that it shares."""

    __slots__ = (
        "_body_bytes",
        "_client",
        "_first_ns",
        "_owner",
        "_payload",
        "_pieces",
        "_prefix",
        "_received",
        "_status",
        "connection",
        "flags",
        "form",
        "has_moved",
        "intended_ns",
        "message",
        "sent_ns",
        "stream_id",
        "unacknowledged",
    )

    def __init__(self, client: GrpcClient) -> None:
        self.connection: GrpcConnection | None = None
        self.form = client.forms[0]
        self.message = b""
        self.flags = 0
        self._client = client
        self._owner = client.owner
        self._payload = 0
        self._pieces: list[bytes] = []
        self.intended_ns = 0
        self.restart()

    def restart(self) -> None:
        """The request has not begun, and nothing of an answer has come."""
        self.sent_ns = 0
        self.stream_id = 0
        self.unacknowledged = 0
        self._first_ns = 0
        self._status = 0
        self._received = 0
        self._body_bytes = 0
        self._prefix = b""
        self._pieces.clear()

    def send(self, data: bytes, payload: int, intended_ns: int, flags: int) -> None:
        self.intended_ns = intended_ns
        self.has_moved = False
        self.message = data
        self.form = self._client.forms[payload]
        self.flags = flags
        self._payload = payload
        connection = self.connection
        if connection is None or not connection.is_usable:
            connection = self._client.seat(self)
        connection.begin(self)

    def abandon(self, outcome: int) -> None:
        connection = self.connection
        assert connection is not None
        connection.cancel(self)
        self._write_down(outcome, time.monotonic_ns())
        connection.doubt()
        self._owner.released(self, outcome)

    def fail(self, outcome: int) -> None:
        """The connection has lost the request."""
        if outcome == End.RESET and self._received:
            outcome = End.CLOSED_EARLY
        self._write_down(outcome, time.monotonic_ns())
        self._owner.released(self, outcome)

    # What the connection brings

    def take_head(self, head: ReplyHead, size: int, is_last: bool) -> None:
        self._received += size
        if not self._status:
            if 100 <= head.status < 200 and not is_last:
                return  # informational, the answer is still to come
            self._status = head.status
            is_wrong = not head.status
        else:
            is_wrong = not is_last
        if is_wrong:
            self._break_off()
        elif is_last:
            self._complete(head)

    def take_data(self, data: bytes, size: int, is_last: bool) -> None:
        self._received += size
        if not self._status:
            self._break_off()
            return
        if not self._first_ns:
            self._first_ns = self._now_ns()
        if self._body_bytes < 5:
            self._prefix += data[: 5 - self._body_bytes]
        self._body_bytes += len(data)
        if self._client.expect is not None:
            self._pieces.append(data)
        if is_last:
            self._end(self._status if self._status != 200 else End.MALFORMED)

    def take_reset(self, code: int) -> None:
        now = self._now_ns()
        if code == h2.CANCEL:
            # Servers say so as well when the deadline that they were given has passed.
            status = _DEADLINE_EXCEEDED if now - self.sent_ns >= self._client.timeout_ns else _CANCELLED
        else:
            status = _OF_RESETS.get(code, _INTERNAL)
        self._end(GRPC_BASE + status)

    def _complete(self, head: ReplyHead) -> None:
        client = self._client
        status = head.grpc_status
        if status is None:
            outcome: int = self._status if self._status != 200 else End.MALFORMED
        elif status:
            outcome = GRPC_BASE + status
        elif self._prefix[:1] > b"\1" or int.from_bytes(self._prefix[1:], "big") != self._body_bytes - 5:
            outcome = End.MALFORMED
        elif client.expect is not None and not client.expect.search(b"".join(self._pieces), 5):
            outcome = End.UNEXPECTED_CONTENT
        else:
            outcome = GRPC_BASE
        if client.keeps_timing and head.timing:
            client.answers += 1
            if not client.answers % SAMPLE_EVERY:
                self._owner.journal.timings.append(head.timing)
        self._end(outcome)

    def _break_off(self) -> None:
        """The answer is none: whatever else comes of it is not wanted."""
        assert self.connection is not None
        self.connection.cancel(self, h2.PROTOCOL_ERROR)
        self._end(End.MALFORMED)

    def _end(self, outcome: int) -> None:
        """What the connection brought was the end."""
        assert self.connection is not None
        self._write_down(outcome, self.connection.read_ns)
        self.connection.ended.append((self, outcome))

    def _write_down(self, outcome: int, done_ns: int) -> None:
        self._owner.journal.rows.extend(
            (
                self.intended_ns,
                self.sent_ns or self.intended_ns,
                self._first_ns or done_ns,
                done_ns,
                outcome,
                self._received,
                0,
                self._payload,
                self.flags,
            )
        )
        self.intended_ns = 0
        self.restart()

    def _now_ns(self) -> int:
        assert self.connection is not None
        return self.connection.read_ns


def _request_fields(plan: LoadPlan, payload: Payload) -> Iterator[Field]:
    """Source: PROTOCOL-HTTP2.md, Requests."""
    endpoint = plan.endpoint
    host = endpoint.host_name or endpoint.host
    yield b":method", b"POST"
    yield b":scheme", b"https" if endpoint.tls else b"http"
    yield b":path", payload.path.encode()
    yield b":authority", f"{f'[{host}]' if ':' in host else host}:{endpoint.port}".encode()
    yield b"te", b"trailers"
    yield b"grpc-timeout", _timeout(plan.timeout_ns)
    yield b"content-type", b"application/grpc"
    yield b"user-agent", b"guepard-bench"
    if plan.server_timing:
        yield b"server-timing", b"1"  # which is how Guepard is asked for it
    for name, value in payload.metadata:
        yield name.lower().encode(), value.encode()


def _timeout(timeout_ns: int) -> bytes:
    """In the finest unit that says it with eight digits."""
    for unit_ns, name in _TIMEOUT_UNITS:
        count = -(-timeout_ns // unit_ns)
        if count < _LONGEST_TIMEOUT:
            return f"{count}{name}".encode()
    return f"{_LONGEST_TIMEOUT - 1}S".encode()
