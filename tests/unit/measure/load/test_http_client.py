"""The HTTP client of the generator against a server that answers in every way, right and wrong."""

import socket

import pytest

from guepard.measure.load.http_client import HttpClient
from guepard.measure.load.journal import Journal
from guepard.measure.load.outcomes import End
from guepard.measure.load.plan import Arrivals, Endpoint, LoadPlan, Payload, ReplyRule
from guepard.measure.load.records import BLOCKED, CONNECTED, Gaps, Records
from tests.services.driving import drive
from tests.unit.measure.load.scripted_server import Script, scripted_server

SECOND = 1_000_000_000
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
BODY = b"x" * 100
REQUEST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


def plan(port: int, **changes: object) -> LoadPlan:
    values: dict[str, object] = {
        "endpoint": Endpoint(protocol="http", host="127.0.0.1", port=port),
        "payloads": (Payload(data=REQUEST),),
        "concurrency": 1,
        "requests": 4,
        "duration_ns": 10 * SECOND,
        "timeout_ns": 5 * SECOND,
    }
    return LoadPlan(**(values | changes))  # type: ignore[arg-type]


def carry_out(wanted: LoadPlan) -> tuple[Records, Journal]:
    return drive(wanted, HttpClient)


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


RIGHT: dict[str, Script] = {
    "plain": [OK],
    "byte by byte": [bytes([byte]) for byte in OK],
    "head and body apart": [OK[:-2], 0.01, OK[-2:]],
    "chunked": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"{", b"}")],
    "until the connection ends": [b"HTTP/1.1 200 OK\r\n\r\n{}", "close"],
    "1.0": [b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", "close"],
    "connection: close": [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", "close"],
    "no body": [b"HTTP/1.1 204 No Content\r\n\r\n"],
    "after a 100": [b"HTTP/1.1 100 Continue\r\n\r\n", 0.01, OK],
    "odd case and spaces": [b"HTTP/1.1 201 Made\r\ncontent-LENGTH:   2\r\nConnection: Keep-Alive\r\n\r\n{}"],
    "an offer of another protocol": [
        b"HTTP/1.1 200 OK\r\nUpgrade: h2,h2c\r\nConnection: Upgrade, Keep-Alive\r\nContent-Length: 2\r\n\r\n{}"
    ],
    "chunks with extensions and a trailer": [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;name=value\r\n{}\r\n0;last\r\nX-Sum: 1\r\n\r\n"
    ],
    "empty": [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"],
    "large": [b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + b"y" * 3_000_000],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_of_every_form_are_successes(name: str) -> None:
    with scripted_server(lambda number: RIGHT[name]) as server:
        records, _ = carry_out(plan(server.port))
    assert set(records.outcome.tolist()) <= {200, 201, 204}
    assert len(records) == 4
    assert (records.done_ns >= records.first_ns).all()
    assert (records.first_ns >= records.sent_ns).all()
    assert (records.sent_ns >= records.intended_ns).all()
    assert server.requests == 4
    closes = RIGHT[name][-1] == "close"
    assert server.connections == (4 if closes else 1)
    assert (records.flags == CONNECTED).tolist() == ([True] * 4 if closes else [True, False, False, False])


WRONG: dict[str, tuple[Script, int]] = {
    "an error with a body": ([b"HTTP/1.1 429 Too Many\r\nContent-Length: 2\r\n\r\n{}"], 429),
    "a redirect": ([b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"], 302),
    "closed in the body": ([OK[:-1], "close"], End.CLOSED_EARLY),
    "closed in the head": ([OK[:9], "close"], End.CLOSED_EARLY),
    "closed in a chunk": ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", "close"], End.CLOSED_EARLY),
    "closed without a byte": (["close"], End.RESET),
    "reset": ([OK[:-1], 0.05, "reset"], End.RESET),
    "garbage": ([b"\x16\x03\x01 not HTTP at all\r\n\r\n"], End.MALFORMED),
    "a status that is none": ([b"HTTP/1.1 2x0 OK\r\nContent-Length: 2\r\n\r\n{}"], End.MALFORMED),
    "a wrong chunk": ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}"], End.MALFORMED),
    "two lengths": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"{}")],
        End.MALFORMED,
    ),
    "another protocol": (
        [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"],
        101,
    ),
    "silence": ([5.0], End.TIMED_OUT),
    "half an answer, then silence": ([OK[:-1], 5.0], End.TIMED_OUT),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_are_told_by_kind_and_the_next_request_is_not_harmed(name: str) -> None:
    script, outcome = WRONG[name]
    with scripted_server(lambda number: script if number == 0 else [OK]) as server:
        records, _ = carry_out(plan(server.port, requests=2, timeout_ns=SECOND))
    assert records.outcome.tolist() == [outcome, 200]
    if outcome == End.TIMED_OUT:
        assert SECOND <= records.latency_ns[0] < 4 * SECOND


def test_more_bytes_than_the_answer_are_not_taken_for_the_next_one() -> None:
    with scripted_server(
        lambda number: [OK + OK] if number == 0 else [b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n"]
    ) as server:
        records, _ = carry_out(plan(server.port, requests=2))
    assert records.outcome.tolist()[1:] == [503]
    assert server.connections == 2


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    records, _ = carry_out(plan(port, requests=3))
    assert records.outcome.tolist() == [End.REFUSED] * 3
    # A closed loop waits between attempts, 10 ms and then 20.
    assert records.intended_ns[2] - records.intended_ns[0] >= 0.03 * SECOND


def test_an_idle_connection_that_the_server_closed_is_opened_again_without_an_error() -> None:
    script: list[Script] = [[OK, "close"], [OK], [OK]]
    with scripted_server(lambda number: script[number]) as server:
        arrivals = Arrivals(kind="constant", rate=10.0)
        records, _ = carry_out(plan(server.port, arrivals=arrivals, concurrency=0, requests=3))
    assert records.outcome.tolist() == [200] * 3
    assert server.connections == 2


def test_a_large_request_is_sent_whole_though_the_kernel_takes_it_in_parts() -> None:
    body = bytes(8_000_000)
    data = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with scripted_server(lambda number: [OK]) as server:
        records, _ = carry_out(plan(server.port, payloads=(Payload(data=data),), requests=3))
        assert records.outcome.tolist() == [200] * 3
        assert server.requests == 3


def test_expected_content_is_looked_for_in_every_form_of_answer() -> None:
    error = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"error": "oom"}'[:-1]
    pieces = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b'{"out', b'puts": []}')
    whole = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"outputs":1}'
    script: list[Script] = [[whole], [pieces], [error], [whole]]
    with scripted_server(lambda number: script[number]) as server:
        records, _ = carry_out(plan(server.port, reply=ReplyRule(expect='"outputs"')))
    assert records.outcome.tolist() == [200, 200, End.UNEXPECTED_CONTENT, 200]


def test_head_answers_have_no_body_whatever_they_say() -> None:
    data = b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with scripted_server(lambda number: [b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"]) as server:
        records, _ = carry_out(plan(server.port, payloads=(Payload(data=data),), is_head=True))
    assert records.outcome.tolist() == [200] * 4
    assert server.connections == 1


@pytest.mark.parametrize("head", [b"", b"Transfer-Encoding: chunked\r\n"])
def test_connections_are_kept_after_head_answers_that_name_no_length(head: bytes) -> None:
    data = b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with scripted_server(lambda number: [b"HTTP/1.1 200 OK\r\n" + head + b"\r\n"]) as server:
        records, _ = carry_out(plan(server.port, payloads=(Payload(data=data),), is_head=True))
    assert records.outcome.tolist() == [200] * 4
    assert server.connections == 1


EVENTS = ReplyRule(events=True, last_event="[DONE]")
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def stream(*steps: bytes | float) -> Script:
    return [STREAM_HEAD, *(chunked(step)[:-5] if isinstance(step, bytes) else step for step in steps), b"0\r\n\r\n"]


def test_streams_tell_their_first_piece_and_the_gaps() -> None:
    script = stream(0.05, b"data: 1\n\n", 0.03, b"data: 2\n\n", 0.03, b"data: 3\n\ndata: [DONE]\n\n")
    with scripted_server(lambda number: script) as server:
        records, journal = carry_out(plan(server.port, reply=EVENTS, requests=2))
    assert records.outcome.tolist() == [200, 200]
    assert records.pieces.tolist() == [3, 3]
    assert (records.first_ns - records.sent_ns >= 0.045 * SECOND).all()
    gaps = Gaps.view(journal.gaps.tobytes())
    assert len(gaps.gap_ns) == 4
    assert (gaps.gap_ns > 0.02 * SECOND).all()


def test_expected_content_is_looked_for_in_streams_too() -> None:
    script = [stream(b"data: 1\n\ndata: [DONE]\n\n"), stream(b"data: one\n", b"\ndata: [DONE]\n\n")]
    rule = ReplyRule(events=True, last_event="[DONE]", expect="data: one")
    with scripted_server(lambda number: script[number]) as server:
        records, _ = carry_out(plan(server.port, reply=rule, requests=2))
    assert records.outcome.tolist() == [End.UNEXPECTED_CONTENT, 200]


def test_a_stream_that_ends_without_its_last_event_is_broken() -> None:
    script = [stream(b"data: 1\n\n"), stream(b"data: 1\n\ndata: [DONE]\n\n")]
    with scripted_server(lambda number: script[number]) as server:
        records, _ = carry_out(plan(server.port, reply=EVENTS, requests=2))
    assert records.outcome.tolist() == [End.BROKEN_STREAM, 200]


def test_an_open_loop_counts_from_the_intended_time_and_says_who_waited_for_a_connection() -> None:
    with scripted_server(lambda number: [0.1, OK]) as server:
        wanted = plan(
            server.port, arrivals=Arrivals(kind="constant", rate=50.0), concurrency=0, requests=10, max_connections=2
        )
        records, _ = carry_out(wanted)
    assert records.outcome.tolist() == [200] * 10
    assert server.connections == 2
    # Two at a time, 100 ms each: the last pair of ten begins after 400 ms and was due at 160 and 180.
    assert records.latency_ns.max() >= 0.3 * SECOND
    assert (records.latency_ns - records.service_ns).max() >= 0.15 * SECOND
    blocked = (records.flags & BLOCKED) != 0
    assert blocked.sum() >= 6
    waited = records.sent_ns - records.intended_ns
    assert (waited[blocked] > 0).all()
    # How late the generator was is told apart from how late the connections were.
    assert (records.lag_ns[~blocked] == waited[~blocked]).all()
    assert (records.lag_ns[blocked] >= 0).all()
    assert (records.lag_ns[blocked] < waited[blocked]).all()


def test_an_open_loop_gives_up_what_could_not_be_sent_in_time() -> None:
    with scripted_server(lambda number: [5.0]) as server:
        wanted = plan(
            server.port,
            arrivals=Arrivals(kind="constant", rate=50.0),
            concurrency=0,
            requests=10,
            max_connections=1,
            timeout_ns=SECOND // 5,
        )
        records, _ = carry_out(wanted)
    assert records.outcome.tolist() == [End.TIMED_OUT] * 10
    assert (records.latency_ns >= SECOND / 5).all()


def test_server_timing_of_a_share_of_the_answers_is_kept() -> None:
    answer = b"HTTP/1.1 200 OK\r\nServer-Timing: queue;dur=0.5\r\nContent-Length: 0\r\n\r\n"
    with scripted_server(lambda number: [answer]) as server:
        _, journal = carry_out(plan(server.port, requests=64))
    assert journal.timings == [b"queue;dur=0.5"] * 4
