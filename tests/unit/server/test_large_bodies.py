"""Large bodies are written where they will lie, by whoever reads the socket."""

import asyncio
from typing import Any

import pytest

from guepard.core.errors import RequestTimeout
from guepard.limits.admission import Admission
from guepard.server.http.body_receiver import BodyReceiver
from guepard.server.http.connection import HttpConnection
from guepard.server.http.context import HttpContext, HttpLimits
from guepard.server.http.endpoint import Buffer, Exchange
from guepard.server.http.request_head import RequestHead
from guepard.server.http.response_writer import JSON_TYPE
from guepard.server.http.router import Route
from tests.services.raw_http import LIVE, chunked, message
from tests.unit.server.http_parts import SECOND_NS, Endpoint, Reading, http_context

BODY = bytes(range(256)) * 4_096
STEP = 100_000


class Taker(Endpoint):
    """Keeps the bodies and answers them at once."""

    def __init__(self) -> None:
        super().__init__("/echo")
        self.bodies: list[Buffer] = []

    def start(self, exchange: Exchange, head: RequestHead, body: Buffer, started: int) -> None:
        self.bodies.append(body)
        exchange.reply(200, JSON_TYPE, (b"{}",))


class FakeTransport(asyncio.Transport):
    """Hands data to its protocol as an event loop does, and keeps what was written."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self.protocol: Any = connection
        self.written = b""
        self.is_closed = False
        connection.connection_made(self)

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def write_eof(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def receive(self, data: bytes) -> None:
        """In one piece where the protocol takes pieces; else as much at a time as there is room for."""
        while data and isinstance(self.protocol, asyncio.BufferedProtocol):
            room = memoryview(self.protocol.get_buffer(-1))
            size = min(len(room), len(data))
            room[:size] = data[:size]
            room.release()
            self.protocol.buffer_updated(size)
            data = data[size:]
        if data:
            self.protocol.data_received(data)

    @property
    def is_direct(self) -> bool:
        return isinstance(self.protocol, BodyReceiver)


@pytest.fixture
def taker() -> Taker:
    return Taker()


@pytest.fixture
def context(taker: Taker) -> HttpContext:
    context = http_context(Route("POST", "/echo", taker), Route("GET", "/v2/health/live", taker))
    context.limits = HttpLimits(2**24, 10 * SECOND_NS, 30 * SECOND_NS, 75 * SECOND_NS)
    context.admission = Admission(2**25)
    return context


@pytest.fixture
def transport(context: HttpContext) -> FakeTransport:
    return FakeTransport(HttpConnection(context))


def post(*headers: str, body: bytes = BODY) -> bytes:
    return message("POST", "/echo", body, headers)


def test_a_body_that_comes_in_pieces_is_received_directly(transport: FakeTransport, taker: Taker) -> None:
    for _ in range(2):  # by the parser and, when its head is known, without
        data = post()
        transport.receive(data[:STEP])
        assert transport.is_direct
        transport.receive(data[STEP:])
        assert not transport.is_direct
    assert taker.bodies == [BODY, BODY]
    assert transport.written.count(b"HTTP/1.1 200") == 2


def test_what_follows_a_body_is_the_next_request(transport: FakeTransport, taker: Taker) -> None:
    data = post("X-Turn: 1")
    transport.receive(data[:STEP])
    transport.receive(data[STEP:] + LIVE + post("X-Turn: 2", body=b"small"))
    assert taker.bodies == [BODY, b"", b"small"]


@pytest.mark.parametrize(
    "data",
    [
        post(body=bytes(STEP)),
        post("Connection: Upgrade", "Upgrade: h2c"),
        chunked("/echo", [BODY]),
    ],
    ids=["small", "with an upgrade", "chunked"],
)
def test_other_bodies_are_not(transport: FakeTransport, taker: Taker, data: bytes) -> None:
    transport.receive(data[:-STEP])
    assert not transport.is_direct
    transport.receive(data[-STEP:])
    assert len(taker.bodies) == 1


def test_a_client_that_waits_for_leave_gets_it_first(transport: FakeTransport, taker: Taker) -> None:
    data = post("Expect: 100-continue")
    start = data.index(b"\r\n\r\n") + 4
    transport.receive(data[:start])
    assert transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert not transport.is_direct
    transport.receive(data[start : start + STEP])
    assert transport.is_direct
    transport.receive(data[start + STEP :])
    assert taker.bodies == [BODY]


def test_a_client_that_leaves_gives_everything_back(transport: FakeTransport, context: HttpContext) -> None:
    transport.receive(post()[:STEP])
    assert context.admission.inflight_bytes == len(BODY)
    transport.protocol.connection_lost(None)
    assert context.admission.inflight_bytes == 0
    assert not context.connections


def test_a_body_that_stops_is_given_up_and_what_comes_then_is_dropped(
    transport: FakeTransport, context: HttpContext, taker: Taker
) -> None:
    transport.receive(post()[:STEP])
    (connection,) = context.connections
    connection.sweep(2**62)
    assert transport.written.startswith(b"HTTP/1.1 408 ")
    transport.receive(post()[STEP:])
    assert not transport.is_direct
    assert not taker.bodies
    assert context.admission.inflight_bytes == 0


def test_the_end_of_the_stream_and_back_pressure_reach_the_connection(
    transport: FakeTransport, context: HttpContext
) -> None:
    transport.receive(post()[:STEP])
    assert transport.protocol.eof_received() is False  # nothing is owed
    transport.get_write_buffer_size = lambda: 700  # type: ignore[method-assign]
    transport.protocol.pause_writing()
    assert context.admission.inflight_bytes == len(BODY) + 700
    transport.protocol.resume_writing()
    assert context.admission.inflight_bytes == len(BODY)


def test_the_reader_collects_a_large_body_without_its_parser(context: HttpContext) -> None:
    """Which would hand it over in pieces, to be joined by copies."""
    reading, data = Reading(context), post("X-Turn: 3")
    reading.feed(data[:STEP])
    assert reading.reader.missing == len(data) - STEP
    reading.feed(data[STEP:] + LIVE)
    assert reading.bodies == [BODY, b""]
    assert isinstance(reading.messages[0].body, memoryview)
    reading.feed(data[:STEP])
    reading.reader.sweep(2**62)
    assert isinstance(reading.refusals[-1], RequestTimeout)
    assert reading.reader.missing == 0
