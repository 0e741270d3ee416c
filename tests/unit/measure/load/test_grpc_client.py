"""The gRPC client of the generator against a server that answers in every way, right and wrong."""

import gc
import random
import socket
import time
import weakref
from collections.abc import Callable, Sequence

import hpack
import pytest

from guepard.measure.load import grpc_client, http2_connection
from guepard.measure.load.grpc_client import GrpcClient
from guepard.measure.load.grpc_connection import GrpcConnection
from guepard.measure.load.journal import Journal
from guepard.measure.load.outcomes import GRPC_BASE, End
from guepard.measure.load.plan import Arrivals, Endpoint, LoadPlan, Payload, PayloadOrder, ReplyRule, UniqueSpot
from guepard.measure.load.records import BLOCKED, CONNECTED, UNIQUE, Records
from tests.services.driving import drive
from tests.unit.measure.load.scripted_http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    RESET,
    SETTINGS,
    ScriptedHttp2,
    Step,
    frame,
    goaway,
    head,
    literal,
    message,
    ok,
    scripted_http2,
    trailers,
    word,
)

SECOND = 1_000_000_000
OK = GRPC_BASE
UNAVAILABLE = GRPC_BASE + 14
CANCEL = 8


def plan(port: int, **changes: object) -> LoadPlan:
    values: dict[str, object] = {
        "endpoint": Endpoint(protocol="grpc", host="127.0.0.1", port=port),
        "payloads": (Payload(data=b"question", path="/a.B/C"),),
        "concurrency": 1,
        "requests": 4,
        "duration_ns": 10 * SECOND,
        "timeout_ns": 5 * SECOND,
    }
    return LoadPlan(**(values | changes))  # type: ignore[arg-type]


def carry_out(wanted: LoadPlan) -> tuple[Records, Journal]:
    return drive(wanted, GrpcClient)


def answers(*scripts: Callable[[int], Sequence[Step]]) -> Callable[[int, int], Sequence[Step]]:
    """The n-th call is answered by the n-th script, and all others by the last."""
    return lambda number, stream: scripts[min(number, len(scripts) - 1)](stream)


def plain(stream: int) -> list[Step]:
    return [ok(stream)]


def no_content(stream: int, flags: int = END_HEADERS | END_STREAM) -> bytes:
    return frame(HEADERS, flags, stream, b"\x88")


RIGHT: dict[str, Callable[[int], Sequence[Step]]] = {
    "in one piece": plain,
    "byte by byte": lambda stream: [bytes([byte]) for byte in ok(stream)],
    "an empty message": lambda stream: [ok(stream, b"")],
    "a message in many frames": lambda stream: [
        head(stream),
        *(frame(DATA, 0, stream, piece) for piece in (b"\0\0", b"", b"\0\0\6an", b"s", b"wer")),
        frame(DATA, 0, stream, b""),
        trailers(stream),
    ],
    "padded": lambda stream: [
        frame(HEADERS, END_HEADERS | 8, stream, b"\3\x88\0\0\0"),
        frame(DATA, 8, stream, b"\xff\0\0\0\0\0" + bytes(255)),
        trailers(stream),
    ],
    "after an informational answer": lambda stream: [
        frame(HEADERS, END_HEADERS, stream, literal(b":status", b"103")),
        ok(stream),
    ],
    "compressed": lambda stream: [head(stream), frame(DATA, 0, stream, b"\1\0\0\0\2gz"), trailers(stream)],
    "large": lambda stream: [
        head(stream),
        frame(DATA, 0, stream, b"\0" + word(40 * 16_000)),
        *[frame(DATA, 0, stream, bytes(16_000)) for _ in range(40)],
        trailers(stream),
    ],
    "between pings and unknown frames": lambda stream: [
        frame(6, 0, 0, b"12345678") + frame(0x55, 3, stream, b"new") + head(stream) + frame(SETTINGS, 0, 0),
        message(stream) + frame(6, 0, 0, b"12345678") + trailers(stream),
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_of_every_form_are_successes(name: str) -> None:
    with scripted_http2(answers(RIGHT[name])) as server:
        records, journal = carry_out(plan(server.port))
    assert records.outcome.tolist() == [OK] * 4
    assert (records.done_ns >= records.first_ns).all()
    assert (records.first_ns >= records.sent_ns).all()
    assert (records.sent_ns >= records.intended_ns).all()
    assert (records.pieces == 0).all()
    assert records.flags.tolist() == [CONNECTED, 0, 0, 0]
    assert server.connections == len(journal.connects) == 1
    if name == "in one piece":
        assert records.received_bytes.tolist() == [len(ok(1))] * 4


@pytest.mark.parametrize("with_head", [True, False], ids=["trailers", "trailers only"])
def test_every_status_is_told(with_head: bool) -> None:
    def script(number: int, stream: int) -> list[Step]:
        status = b"%d" % (number + 1)
        if with_head:
            return [head(stream) + trailers(stream, status)]
        return [frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x88" + literal(b"grpc-status", status))]

    with scripted_http2(script) as server:
        records, _ = carry_out(plan(server.port, requests=17))
    assert records.outcome.tolist() == [GRPC_BASE + code for code in range(1, 18)]
    assert server.connections == 1


def reset(stream: int, code: int) -> bytes:
    return frame(RESET, 0, stream, word(code))


WRONG: dict[str, tuple[Callable[[int], Sequence[Step]], int]] = {
    "OK without a message": (lambda s: [head(s) + trailers(s)], End.MALFORMED),
    "OK in trailers only": (lambda s: [frame(HEADERS, 5, s, b"\x88" + literal(b"grpc-status", b"0"))], End.MALFORMED),
    "two messages": (lambda s: [head(s) + message(s) + message(s) + trailers(s)], End.MALFORMED),
    "half a message": (lambda s: [head(s) + frame(DATA, 0, s, b"\0\0\0\0\5half") + trailers(s)], End.MALFORMED),
    "half a prefix": (lambda s: [head(s) + frame(DATA, 0, s, b"\0\0\0") + trailers(s)], End.MALFORMED),
    "a wrong prefix": (lambda s: [head(s) + frame(DATA, 0, s, b"\2\0\0\0\1x") + trailers(s)], End.MALFORMED),
    "no status": (lambda s: [head(s) + message(s) + frame(HEADERS, 5, s, literal(b"x-a", b"b"))], End.MALFORMED),
    "no trailers": (lambda s: [head(s) + message(s, flags=END_STREAM)], End.MALFORMED),
    "no HTTP status": (lambda s: [frame(HEADERS, 4, s, literal(b"x-a", b"b"))], End.MALFORMED),
    "data before headers": (lambda s: [message(s)], End.MALFORMED),
    "trailers that are not the end": (lambda s: [head(s) + message(s) + head(s)], End.MALFORMED),
    "a status that is none": (lambda s: [head(s) + trailers(s, b"OK")], GRPC_BASE + 2),
    "a proxy's 503 with a page": (
        lambda s: [frame(HEADERS, 4, s, literal(b":status", b"503")) + frame(DATA, END_STREAM, s, b"<html>")],
        503,
    ),
    "a proxy's 404": (lambda s: [frame(HEADERS, 5, s, b"\x8d")], 404),
    "a 429 with trailers": (lambda s: [frame(HEADERS, 4, s, literal(b":status", b"429")), no_content(s)], 429),
    "a 502 with a status": (
        lambda s: [frame(HEADERS, 5, s, literal(b":status", b"502") + literal(b"grpc-status", b"14"))],
        UNAVAILABLE,
    ),
    "reset: no error": (lambda s: [reset(s, 0)], GRPC_BASE + 13),
    "reset: internal error": (lambda s: [head(s) + reset(s, 2)], GRPC_BASE + 13),
    "reset: refused": (lambda s: [reset(s, 7)], UNAVAILABLE),
    "reset: cancelled": (lambda s: [head(s) + message(s) + reset(s, 8)], GRPC_BASE + 1),
    "reset: calm down": (lambda s: [reset(s, 11)], GRPC_BASE + 8),
    "reset: not safe": (lambda s: [reset(s, 12)], GRPC_BASE + 7),
    "reset: a code of the future": (lambda s: [reset(s, 99)], GRPC_BASE + 13),
    "closed without a byte": (lambda s: ["close"], End.RESET),
    "closed in the head": (lambda s: [head(s)[:5], "close"], End.RESET),
    "closed after the head": (lambda s: [head(s), "close"], End.CLOSED_EARLY),
    "closed in the message": (lambda s: [head(s), message(s)[:-1], "close"], End.CLOSED_EARLY),
    "closed before the trailers": (lambda s: [head(s), message(s), "close"], End.CLOSED_EARLY),
    "garbage": (lambda s: [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], End.MALFORMED),
    "a frame that is forbidden": (lambda s: [frame(5, 4, s, word(2) + b"\x88")], End.MALFORMED),
    "headers that cannot be read": (lambda s: [head(s, b"\xff\xff\xff")], End.MALFORMED),
    "silence": (lambda s: [], End.TIMED_OUT),
    "half an answer, then silence": (lambda s: [head(s) + message(s)], End.TIMED_OUT),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_are_told_by_kind_and_the_next_call_is_not_harmed(name: str) -> None:
    script, outcome = WRONG[name]
    with scripted_http2(answers(script, plain)) as server:
        records, _ = carry_out(plan(server.port, requests=2, timeout_ns=SECOND))
    assert records.outcome.tolist() == [outcome, OK]
    if outcome == End.TIMED_OUT:
        assert SECOND <= records.latency_ns[0] < 4 * SECOND
        assert server.resets == [CANCEL]


def test_what_others_have_under_way_is_not_harmed_by_one_that_is_given_up() -> None:
    """Its late answer is skipped, though the table of headers goes on from it."""
    late: list[int] = []

    def script(number: int, stream: int) -> list[Step]:
        if number == 0:
            late.append(stream)
            return []
        time.sleep(0.005)
        return [ok(late.pop()), ok(stream)] if late and server.resets else [ok(stream)]

    with scripted_http2(script) as server:
        records, _ = carry_out(plan(server.port, concurrency=4, requests=80, timeout_ns=SECOND // 5))
    outcomes = records.outcome.tolist()
    assert outcomes.count(OK) == 79
    assert outcomes.count(End.TIMED_OUT) == 1
    assert server.resets == [CANCEL]
    assert server.connections == 1
    assert not late


def test_a_connection_on_which_nothing_comes_any_more_is_replaced() -> None:
    with scripted_http2(answers(plain, plain, lambda stream: [], plain)) as server:
        records, _ = carry_out(plan(server.port, timeout_ns=SECOND // 5))
    assert records.outcome.tolist() == [OK, OK, End.TIMED_OUT, OK]
    assert server.connections == 2


def test_a_server_that_takes_connections_and_says_nothing_times_out() -> None:
    with scripted_http2(answers(plain), greeting=b"") as server:
        records, _ = carry_out(plan(server.port, concurrency=3, requests=6, timeout_ns=SECOND // 5))
    assert records.outcome.tolist() == [End.TIMED_OUT] * 6
    assert (records.sent_ns >= records.intended_ns).all()
    assert (records.service_ns >= SECOND / 10).all()
    assert (records.flags == CONNECTED).all()
    assert server.connections >= 2


def test_what_a_server_takes_to_greet_is_its_own_time_and_no_lag_of_the_generator() -> None:
    with scripted_http2(answers(plain), greets_after_s=0.3) as server:
        records, _ = carry_out(plan(server.port, concurrency=3, requests=3))
    assert records.outcome.tolist() == [OK] * 3
    assert (records.service_ns >= 0.3 * SECOND).all()


def test_a_server_of_another_protocol_is_told() -> None:
    with scripted_http2(answers(plain), greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        records, _ = carry_out(plan(server.port, requests=2))
    assert records.outcome.tolist() == [End.MALFORMED] * 2


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    records, _ = carry_out(plan(port, concurrency=2, requests=6))
    assert records.outcome.tolist() == [End.REFUSED] * 6
    # A closed loop waits between attempts, 10 ms and then 20.
    assert records.intended_ns.max() - records.intended_ns.min() >= 0.03 * SECOND


def test_an_address_that_cannot_be_reached_is_told_at_once() -> None:
    wanted = plan(9, requests=1, endpoint=Endpoint(protocol="grpc", host="255.255.255.255", port=9))
    records, _ = carry_out(wanted)
    assert records.outcome.tolist() == [End.UNREACHABLE]


def test_an_idle_connection_that_the_server_closed_is_opened_again_without_an_error() -> None:
    with scripted_http2(answers(lambda stream: [ok(stream), "close"], plain)) as server:
        arrivals = Arrivals(kind="constant", rate=10.0)
        records, _ = carry_out(plan(server.port, arrivals=arrivals, concurrency=0, requests=3))
    assert records.outcome.tolist() == [OK] * 3
    assert server.connections == 2


# Sharing connections


def limit(most_streams: int) -> bytes:
    return frame(SETTINGS, 0, 0, b"\0\3" + word(most_streams))


def waits_for(count: int) -> Callable[[int, int], Sequence[Step]]:
    """Answers when so many calls wait on the connection."""
    waiting: list[int] = []

    def script(number: int, stream: int) -> list[Step]:
        waiting.append(stream)
        if len(waiting) < count:
            return []
        data = b"".join(map(ok, waiting))
        waiting.clear()
        return [data]

    return script


def test_a_hundred_slots_share_one_connection_and_more_need_another() -> None:
    with scripted_http2(waits_for(100)) as server:
        records, _ = carry_out(plan(server.port, concurrency=100, requests=1_000))
    assert records.outcome.tolist() == [OK] * 1_000
    assert (server.connections, server.most_open) == (1, 100)
    with scripted_http2(answers(plain)) as server:
        carry_out(plan(server.port, concurrency=101, requests=1_000))
    assert server.connections == 2
    assert server.most_open <= 100


def test_two_hundred_calls_at_once_on_one_connection() -> None:
    with scripted_http2(waits_for(200)) as server:
        records, _ = carry_out(plan(server.port, concurrency=200, requests=2_000, streams_per_connection=200))
    assert records.outcome.tolist() == [OK] * 2_000
    assert (server.connections, server.most_open) == (1, 200)


@pytest.mark.parametrize(("each", "connections"), [(1, 10), (3, 4), (10, 1)])
def test_the_plan_says_how_many_share_a_connection(each: int, connections: int) -> None:
    with scripted_http2(answers(plain)) as server:
        records, journal = carry_out(plan(server.port, concurrency=10, requests=300, streams_per_connection=each))
    assert records.outcome.tolist() == [OK] * 300
    assert server.connections == len(journal.connects) == connections
    assert server.most_open <= each


@pytest.mark.parametrize(("most", "connections"), [(1, 10), (3, 4), (1_000, 1)])
def test_the_server_says_how_many_share_a_connection(most: int, connections: int) -> None:
    with scripted_http2(answers(plain), greeting=limit(most)) as server:
        records, _ = carry_out(plan(server.port, concurrency=10, requests=300))
    assert records.outcome.tolist() == [OK] * 300
    assert server.connections == connections
    assert server.most_open <= most


def test_a_server_that_allows_none_is_waited_for() -> None:
    with scripted_http2(answers(plain), greeting=limit(0)) as server:
        records, _ = carry_out(plan(server.port, concurrency=3, requests=3, timeout_ns=SECOND // 5))
    assert records.outcome.tolist() == [End.TIMED_OUT] * 3
    with scripted_http2(answers(plain), greeting=limit(0) + frame(6, 0, 0, bytes(8)) + limit(5)) as server:
        records, _ = carry_out(plan(server.port, concurrency=3, requests=30))
    assert records.outcome.tolist() == [OK] * 30


def test_a_limit_that_is_lowered_holds_for_the_calls_that_follow() -> None:
    with scripted_http2(lambda number, stream: [limit(2) + ok(stream)] if stream == 1 else [ok(stream)]) as server:
        records, _ = carry_out(plan(server.port, concurrency=6, requests=300))
    assert records.outcome.tolist() == [OK] * 300
    assert server.connections == 3


def test_an_open_loop_counts_from_the_intended_time_and_says_who_waited() -> None:
    def script(number: int, stream: int) -> list[Step]:
        time.sleep(0.05)
        return [ok(stream)]

    with scripted_http2(script) as server:
        wanted = plan(
            server.port, arrivals=Arrivals(kind="constant", rate=100.0), concurrency=0, requests=10, max_connections=2
        )
        records, _ = carry_out(wanted)
    assert records.outcome.tolist() == [OK] * 10
    assert server.connections == 1
    assert records.latency_ns.max() >= 0.3 * SECOND
    assert ((records.flags & BLOCKED) != 0).sum() >= 6
    assert server.most_open <= 2


# GOAWAY


def test_calls_that_a_leaving_server_did_not_take_are_carried_to_another_connection() -> None:
    """It has four calls, answers two and says that it has not seen the others; then it answers what is new."""
    seen: list[int] = []

    def script(number: int, stream: int) -> list[Step]:
        seen.append(stream)
        if number < 3:
            return []
        return [goaway(3) + ok(1), ok(3), "close"] if number == 3 else [ok(stream)]

    with scripted_http2(script) as server:
        records, _ = carry_out(plan(server.port, concurrency=4, requests=100))
    assert records.outcome.tolist() == [OK] * 100
    assert server.connections == 2
    assert server.calls == 102
    assert seen[:4] == [1, 3, 5, 7]


def test_a_warning_before_the_goaway_loses_nothing() -> None:
    def script(number: int, stream: int) -> list[Step]:
        if number % 10 == 9:
            return [goaway((1 << 31) - 1) + ok(stream) + goaway(stream)]
        return [ok(stream)]

    with scripted_http2(script) as server:
        records, _ = carry_out(plan(server.port, requests=50))
    assert records.outcome.tolist() == [OK] * 50
    assert server.connections == 5


def test_calls_are_carried_over_once() -> None:
    with scripted_http2(answers(lambda stream: [goaway(0), "close"])) as server:
        records, _ = carry_out(plan(server.port, requests=2))
    assert records.outcome.tolist() == [UNAVAILABLE] * 2
    assert server.connections == 4


def test_what_a_leaving_server_took_and_did_not_answer_is_lost() -> None:
    with scripted_http2(answers(lambda stream: [goaway(stream), head(stream), "close"], plain)) as server:
        records, _ = carry_out(plan(server.port, requests=2))
    assert records.outcome.tolist() == [End.CLOSED_EARLY, OK]


def test_a_connection_with_few_numbers_left_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_connection, "_LAST_GOOD_ID", 100)
    with scripted_http2(answers(plain)) as server:
        records, _ = carry_out(plan(server.port, concurrency=3, requests=500))
    assert records.outcome.tolist() == [OK] * 500
    assert 9 <= server.connections <= 11


# What is asked


def fields_of(block: bytes) -> dict[bytes, bytes]:
    return {bytes(name): bytes(value) for name, value in hpack.Decoder().decode(block, raw=True)}


def request_heads(server: ScriptedHttp2) -> list[dict[bytes, bytes]]:
    """Each read on its own, which shows that none refers to another."""
    return [fields_of(payload) for kind, _, _, payload in server.frames if kind == HEADERS]


def test_the_request_is_what_grpc_wants() -> None:
    payloads = (
        Payload(data=b"one", path="/a.B/One", metadata=(("X-Tenant", "left"), ("authorization", "Bearer é"))),
        Payload(data=b"two", path="/a.B/Two"),
    )
    with scripted_http2(answers(plain)) as server:
        carry_out(plan(server.port, payloads=payloads, requests=2, timeout_ns=250_000_000, server_timing=False))
    first, second = request_heads(server)
    assert first == {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/a.B/One",
        b":authority": b"127.0.0.1:%d" % server.port,
        b"te": b"trailers",
        b"grpc-timeout": b"250000u",
        b"content-type": b"application/grpc",
        b"user-agent": b"guepard-bench",
        b"x-tenant": b"left",
        b"authorization": "Bearer é".encode(),
    }
    assert second[b":path"] == b"/a.B/Two"
    assert b"x-tenant" not in second
    assert [payload for kind, _, _, payload in server.frames if kind == DATA] == [b"\0\0\0\0\3one", b"\0\0\0\0\3two"]


@pytest.mark.parametrize(
    ("timeout_ns", "text"),
    [
        (1, b"1n"),
        (99_999_999, b"99999999n"),
        (100_000_000, b"100000u"),
        (30_000_000_001, b"30000001u"),
        (1_000_000_000_000, b"1000000m"),
        (10**18, b"99999999S"),
        (86_400 * SECOND, b"86400000m"),
    ],
)
def test_deadlines_are_written_with_eight_digits_at_most_and_never_too_short(timeout_ns: int, text: bytes) -> None:
    assert grpc_client._timeout(timeout_ns) == text


def test_an_address_in_the_authority_is_bracketed_and_another_name_preferred() -> None:
    def authority(endpoint: Endpoint) -> bytes:
        wanted = plan(1, endpoint=endpoint)
        return dict(grpc_client._request_fields(wanted, wanted.payloads[0]))[b":authority"]

    assert authority(Endpoint(protocol="grpc", host="::1", port=8001)) == b"[::1]:8001"
    assert authority(Endpoint(protocol="grpc", host="10.0.0.1", port=1, host_name="models")) == b"models:1"


def test_unique_payloads_differ() -> None:
    payload = Payload(data=b"x=00000000;", path="/a.B/C", spot=UniqueSpot(offset=2, width=8, form="digits"))
    with scripted_http2(answers(plain)) as server:
        wanted = plan(server.port, payloads=(payload,), order=PayloadOrder(kind="unique"), requests=3)
        records, _ = carry_out(wanted)
    assert (records.flags & UNIQUE).all()
    sent = [payload[5:] for kind, _, _, payload in server.frames if kind == DATA]
    assert sent == [b"x=00000000;", b"x=00000001;", b"x=00000002;"]


def test_metadata_longer_than_a_frame_is_continued() -> None:
    payload = Payload(data=b"x", path="/a.B/C", metadata=(("x-long", "y" * 40_000),))
    with scripted_http2(answers(plain)) as server:
        records, _ = carry_out(plan(server.port, payloads=(payload,), requests=2))
    assert records.outcome.tolist() == [OK] * 2
    block = b"".join(payload for kind, _, stream, payload in server.frames if kind in (HEADERS, 9) and stream == 1)
    assert fields_of(block)[b"x-long"] == b"y" * 40_000


def test_long_messages_pass_through_small_windows() -> None:
    payload = Payload(data=random.Random(1).randbytes(300_000), path="/a.B/C")
    with scripted_http2(answers(plain)) as server:
        records, _ = carry_out(plan(server.port, payloads=(payload,), concurrency=3, requests=9))
    assert records.outcome.tolist() == [OK] * 9
    whole = b"\0" + word(300_000) + payload.data
    for stream in range(1, 18, 2):
        assert b"".join(data for kind, _, number, data in server.frames if kind == DATA and number == stream) == whole


# What is kept of answers


def test_expected_content_is_looked_for_in_the_message() -> None:
    def cut(stream: int) -> list[Step]:
        pieces = (b'\0\0\0\0\x0e{"out', b'puts": 1}')
        return [head(stream), *(frame(DATA, 0, stream, piece) for piece in pieces), trailers(stream)]

    script = answers(
        lambda stream: [ok(stream, b'{"outputs": 2}')],
        cut,
        lambda stream: [ok(stream, b'{"error": "no"}')],
        lambda stream: [head(stream) + trailers(stream, b"3")],
        cut,
    )
    with scripted_http2(script) as server:
        records, _ = carry_out(plan(server.port, requests=5, reply=ReplyRule(expect='"outputs"')))
    assert records.outcome.tolist() == [OK, OK, End.UNEXPECTED_CONTENT, GRPC_BASE + 3, OK]


def test_server_timing_is_asked_for_and_kept_of_a_share_of_the_answers() -> None:
    def told(stream: int) -> list[Step]:
        return [head(stream) + message(stream) + trailers(stream, b"0", literal(b"server-timing", b"q;dur=1"))]

    with scripted_http2(answers(told)) as server:
        _, journal = carry_out(plan(server.port, requests=64))
    assert journal.timings == [b"q;dur=1"] * 4
    assert all(b"server-timing" in fields for fields in request_heads(server))
    with scripted_http2(answers(told)) as server:
        _, journal = carry_out(plan(server.port, requests=64, server_timing=False))
    assert journal.timings == []
    assert not any(b"server-timing" in fields for fields in request_heads(server))


def test_lost_connections_leave_nothing_to_the_collector_of_cycles() -> None:
    """Generators run with it switched off, and a server that refuses may be asked very often."""
    gone: list[weakref.ref[object]] = []

    def watched(client: GrpcClient) -> GrpcConnection:
        connection = GrpcConnection(client)
        gone.extend((weakref.ref(connection._http2), weakref.ref(connection._dial)))
        return connection

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch, scripted_http2(answers(lambda stream: ["close"])) as server:
        patch.setattr(grpc_client, "GrpcConnection", watched)
        for wanted in (plan(server.port), plan(port)):
            gone.clear()
            gc.collect()
            gc.disable()
            try:
                carry_out(wanted)
                assert len(gone) == 8
                assert [reference() for reference in gone[:-2]] == [None] * 6  # the last slot keeps the last one
            finally:
                gc.enable()


# Anything at all


def disorder(random_: random.Random, stream: int) -> bytes:
    """Frames that are right by themselves, in no order, of streams that there have been."""
    parts = []
    for _ in range(random_.randrange(1, 8)):
        which = random_.choice([stream, stream, 1])
        piece = random_.choice(
            [head(which), message(which), message(which, flags=END_STREAM), trailers(which), no_content(which),
             reset(which, random_.randrange(14)), frame(8, 0, which, word(9)), frame(8, 0, 0, word(9)), ok(which),
             limit(random_.randrange(4)), frame(SETTINGS, 0, 0, b"\0\4" + word(random_.randrange(99))),
             frame(6, 0, 0, bytes(8)), goaway(random_.choice([0, 1, stream, 1 << 20]))]
        )  # fmt: skip
        parts.append(piece)
    return b"".join(parts)


def noise(random_: random.Random, stream: int) -> bytes:
    """Frames that are not right, some cut, between some that are."""
    parts = []
    for _ in range(random_.randrange(1, 8)):
        payload = random_.choice([b"", b"\x88", word(1), word(0), bytes(8), random_.randbytes(random_.randrange(40))])
        piece = frame(
            random_.randrange(11), random_.choice([0, 1, 4, 5, 8, 0x2D]), random_.choice([stream, 0, 2]), payload
        )
        if random_.random() < 0.1:
            piece = piece[: random_.randrange(len(piece))]
        parts.append(random_.choice([piece, disorder(random_, stream)]))
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_a_server_says_every_call_ends_once(seed: int) -> None:
    random_ = random.Random(seed)

    def script(number: int, stream: int) -> list[Step]:
        steps: list[Step] = [(noise if seed % 2 else disorder)(random_, stream)]
        return steps + (["close"] if random_.random() < 0.3 else [ok(stream)])

    greeting = frame(SETTINGS, 0, 0) if seed else random_.randbytes(30)
    with scripted_http2(script, greeting) as server:
        wanted = plan(
            server.port,
            arrivals=Arrivals(kind="constant", rate=1_000.0),
            concurrency=0,
            requests=100,
            timeout_ns=SECOND // 5,
            max_connections=8,
        )
        records, _ = carry_out(wanted)
    assert len(records) == 100
    assert len(set(records.intended_ns.tolist())) == 100
    assert (records.done_ns >= records.intended_ns).all()
    assert (records.done_ns - records.intended_ns < 2 * SECOND).all()
