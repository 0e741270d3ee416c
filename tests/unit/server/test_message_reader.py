"""Bytes into requests, without a socket."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.core.errors import ErrorCode, InputError, PermissionDenied, RequestTimeout
from guepard.memory.heap_arena import HeapArena
from guepard.memory.slab_pool import SlabPool
from guepard.server.http.context import HttpContext
from guepard.server.http.request_head import RequestHead
from guepard.server.http.router import Route
from tests.services.raw_http import LIVE, chunked, message
from tests.unit.server.http_parts import MAX_INFLIGHT_BYTES, MAX_REQUEST_BYTES, Endpoint, Reading, http_context

ECHO = "/echo/{name}"


def guarded(head: RequestHead) -> None:
    if b"origin" in head.headers:
        raise PermissionDenied("closed")


@pytest.fixture
def context() -> HttpContext:
    return http_context(
        Route("POST", ECHO, Endpoint(ECHO, guarded)), Route("GET", "/v2/health/live", Endpoint("/v2/health/live"))
    )


@pytest.fixture
def reading(context: HttpContext) -> Reading:
    return Reading(context)


def post(body: bytes, *headers: str, length: int | None = None) -> bytes:
    return message("POST", "/echo/a", body, headers, length=length)


STREAM = (
    post(b"one")
    + LIVE
    + chunked("/echo/b", [b"t", b"wo"], extension=b";a=b", trailer=b"A: b\r\n")
    + post(b"refused", "Origin: x")
    + post(b"three", "Upgrade: h2c", "Connection: Upgrade")
    + post(b"")
    + post(b"four")
)
BODIES = [b"one", b"", b"two", b"", b"three", b"", b"four"]
CODES = [None, None, None, ErrorCode.PERMISSION_DENIED, None, None, None]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_where_segments_end_does_not_matter(cuts: list[int]) -> None:
    context = http_context(
        Route("POST", ECHO, Endpoint(ECHO, guarded)), Route("GET", "/v2/health/live", Endpoint("/v2/health/live"))
    )
    reading = Reading(context)
    reading.feed(*(STREAM[start:end] for start, end in pairwise([0, *sorted(cuts), len(STREAM)])))
    assert reading.bodies == BODIES
    assert [refusal and refusal.code for refusal in reading.refusals] == CODES
    assert reading.reader.at_boundary
    assert (
        context.admission.inflight_bytes == sum(message.permit for message in reading.messages) == len(b"".join(BODIES))
    )


@given(st.binary(max_size=400), st.integers(1, 40))
def test_no_bytes_raise_or_leave_permits_behind(noise: bytes, step: int) -> None:
    context = http_context(Route("POST", ECHO, Endpoint(ECHO)))
    reading = Reading(context)
    data = post(b"good") + noise
    reading.feed(*(data[start : start + step] for start in range(0, len(data), step)))
    reading.reader.drop()
    assert reading.bodies[0] == b"good"
    assert context.admission.inflight_bytes == sum(message.permit for message in reading.messages)


def test_a_body_is_admitted_by_its_head(reading: Reading, context: HttpContext) -> None:
    reading.feed(post(b"ab", length=9))
    assert context.admission.inflight_bytes == 9
    reading.feed(b"cdefghi")
    assert reading.bodies == [b"abcdefghi"]
    assert reading.messages[0].permit == context.admission.inflight_bytes == 9


def test_chunks_are_admitted_as_they_come(reading: Reading, context: HttpContext) -> None:
    reading.feed(chunked("/echo/a", [b"abc"])[:-5])
    assert context.admission.inflight_bytes == 3
    reading.reader.drop()
    assert context.admission.inflight_bytes == 0


@pytest.mark.parametrize(
    "sent",
    [
        post(b"", length=MAX_REQUEST_BYTES + 1),
        chunked("/echo/a", [bytes(60_000), bytes(40_001)]),
    ],
)
def test_a_body_over_the_limit_ends_the_reading(reading: Reading, context: HttpContext, sent: bytes) -> None:
    reading.feed(sent, LIVE)
    (refusal,) = reading.refusals
    assert refusal is not None
    assert refusal.code is ErrorCode.PAYLOAD_TOO_LARGE
    assert reading.reader.deaf
    assert context.admission.inflight_bytes == 0


def test_a_body_of_exactly_the_limit_is_read(reading: Reading) -> None:
    reading.feed(post(bytes(MAX_REQUEST_BYTES)), LIVE)
    assert [len(body) for body in reading.bodies] == [MAX_REQUEST_BYTES, 0]


def test_more_than_may_be_in_flight_is_refused(context: HttpContext) -> None:
    first, second = Reading(context), Reading(context)
    first.feed(post(bytes(MAX_REQUEST_BYTES)))
    second.feed(post(bytes(MAX_INFLIGHT_BYTES - MAX_REQUEST_BYTES + 1)))
    (refusal,) = second.refusals
    assert refusal is not None
    assert refusal.code is ErrorCode.OVERLOADED
    assert refusal.retry_after_ms
    assert context.admission.inflight_bytes == MAX_REQUEST_BYTES


@pytest.mark.parametrize("sent", [post(bytes(101)), chunked("/echo/a", [bytes(60), bytes(41)])])
def test_what_can_never_be_admitted_is_not_told_to_come_again(
    reading: Reading, context: HttpContext, sent: bytes
) -> None:
    context.admission.max_inflight_bytes = 100
    reading.feed(sent)
    (refusal,) = reading.refusals
    assert refusal is not None
    assert (refusal.code, refusal.retry_after_ms) == (ErrorCode.PAYLOAD_TOO_LARGE, None)
    assert context.admission.inflight_bytes == 0


def test_a_small_refused_body_is_skipped_and_a_large_one_is_not_waited_for(reading: Reading) -> None:
    reading.feed(post(b"abc", "Origin: x"), LIVE)
    assert [refusal is None for refusal in reading.refusals] == [False, True]
    reading.feed(post(b"", "Origin: x", length=70_000))
    assert reading.refusals[-1] is not None
    assert reading.reader.deaf


def test_leave_is_given_once_the_head_has_been_judged(reading: Reading) -> None:
    expecting = post(b"", "Expect: 100-continue", length=3)
    reading.feed(expecting[:-2])
    assert reading.leaves == 0
    reading.feed(expecting[-2:])
    assert reading.leaves == 1
    assert reading.reader.awaits_leave
    reading.feed(b"abc")
    assert reading.bodies == [b"abc"]
    assert not reading.reader.awaits_leave


def test_leave_is_not_given_for_a_body_that_would_be_refused(reading: Reading) -> None:
    reading.feed(post(b"", "Expect: 100-continue", "Origin: x", length=3))
    assert reading.leaves == 0
    assert reading.refusals[0] is not None


def test_refusing_gives_the_permit_back_and_hears_no_more(reading: Reading, context: HttpContext) -> None:
    reading.feed(post(b"a", length=9))
    late = RequestTimeout("late")
    reading.reader.refuse(late)
    reading.feed(b"bcdefghi", LIVE)
    assert reading.refusals == [late]
    assert reading.messages[0].head.path == "/echo/a"
    assert context.admission.inflight_bytes == 0


def test_half_a_head_behind_a_message_is_no_boundary(reading: Reading) -> None:
    """Else its rest would be looked up among the known heads, and its time would not run."""
    reading.feed(LIVE + b"POST /echo/a HTTP/1.1\r\nA: ")
    assert len(reading.messages) == 1
    assert not reading.reader.at_boundary
    assert reading.reader.head_bytes > 0
    assert reading.reader.head_since >= reading.messages[0].started


def test_heads_that_were_taken_are_known_and_refused_ones_are_not(reading: Reading, context: HttpContext) -> None:
    refused = post(b"abc", "Origin: x")
    reading.feed(refused + LIVE)
    assert not context.heads
    reading.feed(LIVE + refused)
    assert list(context.heads) == [LIVE]


@pytest.mark.parametrize(
    "sent",
    [
        chunked("/echo/a", [b"abc"]),
        post(b"abc", "Expect: 100-continue"),
        post(b"abc", "X-A: " + "a" * 4_000),
        b"\r\n" + LIVE,
        post(b"abc", "Origin: x"),
    ],
)
def test_heads_that_cannot_stand_for_others_are_not_kept(reading: Reading, context: HttpContext, sent: bytes) -> None:
    reading.feed(sent)
    assert len(reading.messages) == 1
    assert sent.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" not in context.heads


def test_a_known_head_takes_up_a_body_that_comes_in_parts(reading: Reading, context: HttpContext) -> None:
    reading.feed(post(b"abcdef"))
    (head,) = context.heads.values()
    reading.reader.collect(head, b"gh")
    assert context.admission.inflight_bytes == 12
    reading.feed(b"ij", b"kl" + LIVE + b"GET")
    assert reading.bodies == [b"abcdef", b"ghijkl", b""]
    assert not reading.reader.at_boundary


def test_a_fault_of_ours_is_not_blamed_on_the_client(caplog: pytest.LogCaptureFixture) -> None:
    def broken(head: RequestHead) -> None:
        raise KeyError("a fault")

    reading = Reading(http_context(Route("POST", ECHO, Endpoint(ECHO, broken))))
    reading.feed(post(b"abc"))
    (refusal,) = reading.refusals
    assert refusal is not None
    assert refusal.code is ErrorCode.INTERNAL
    assert "a fault" not in refusal.message
    assert "a fault" in caplog.text


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2 is not spoken here; use HTTP/1.1"),
        (b"GET /v2\r\n\r\n", "HTTP/0.9 is not spoken here; use HTTP/1.1"),
        (b"GET /v2 HTTP/1.1\r\n\r\n", "the Host header is missing; HTTP/1.1 needs one"),
        (b"CONNECT /echo/a HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT is not allowed here; use POST"),
    ],
)
def test_refusals_say_what_to_do(reading: Reading, sent: bytes, text: str) -> None:
    reading.feed(sent)
    (refusal,) = reading.refusals
    assert refusal is not None
    assert refusal.message == text


def test_a_head_is_bounded_in_size_and_number(reading: Reading) -> None:
    reading.feed(message("GET", "/v2/health/live", headers=[f"A{n}: b" for n in range(127)]))
    assert reading.refusals == [None]
    reading.feed(message("GET", "/v2/health/live", headers=[f"A{n}: b" for n in range(128)]))
    assert isinstance(reading.refusals[-1], Exception)
    assert reading.refusals[-1].code is ErrorCode.HEADERS_TOO_LARGE
    assert not isinstance(reading.refusals[-1], InputError)


class TestLargeBodies:
    """Where a body is collected whose head is known and whose length is large."""

    SIZE = 50_000

    @pytest.fixture
    def pool(self, context: HttpContext, monkeypatch: pytest.MonkeyPatch) -> SlabPool:
        monkeypatch.setattr("guepard.server.http.message_reader._POOLED_FROM", self.SIZE)
        context.buffers = pool = SlabPool(HeapArena(), limit_bytes=2**20)
        return pool

    def collect(self, reading: Reading, size: int) -> None:
        """All but the last byte of a body, by a head that is known."""
        reading.feed(post(bytes(size)))
        reading.messages.clear()
        head = next(head for head in reading.context.heads.values() if head.content_length == size)
        reading.reader.collect(head, b"a" * (size - 1))

    def test_it_lies_in_a_lease_for_as_long_as_anybody_views_it(self, reading: Reading, pool: SlabPool) -> None:
        self.collect(reading, self.SIZE)
        assert pool.statistics().leased_bytes > 0
        reading.feed(b"b")
        assert reading.bodies == [b"a" * (self.SIZE - 1) + b"b"]
        array = np.frombuffer(reading.messages.pop().body, np.uint8)[7:9]
        assert pool.statistics().leased_bytes > 0
        del array
        assert pool.statistics().leased_bytes == 0

    def test_one_that_never_comes_whole_goes_back_at_once(self, reading: Reading, pool: SlabPool) -> None:
        self.collect(reading, self.SIZE)
        reading.reader.drop()
        assert pool.statistics()[:3] == (0, 57_344, 1)

    def test_smaller_ones_lie_elsewhere(self, reading: Reading, pool: SlabPool) -> None:
        self.collect(reading, self.SIZE - 1)
        reading.feed(b"b")
        assert reading.bodies == [b"a" * (self.SIZE - 2) + b"b"]
        assert pool.statistics().grown_count == 0

    def test_a_pool_at_its_limit_refuses_none(self, reading: Reading, context: HttpContext, pool: SlabPool) -> None:
        context.buffers = SlabPool(HeapArena(), limit_bytes=0)
        self.collect(reading, self.SIZE)
        reading.feed(b"b")
        assert reading.bodies == [b"a" * (self.SIZE - 1) + b"b"]
        assert context.buffers.statistics().unpooled_count == 1
