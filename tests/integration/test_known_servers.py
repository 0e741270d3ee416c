"""The servers of known behaviour do what they say: otherwise what is tested against them proves nothing."""

import itertools
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Literal

import httpx
import pytest
from openai import APIError, OpenAI

from tests.services.known_behaviours import (
    ERROR_BODY,
    OK_BODY,
    TEXTS,
    Alternate,
    AnyBehaviour,
    Chunked,
    Closing,
    Cycle,
    Dying,
    EarlyClose,
    Errors,
    Events,
    Garbage,
    Lognormal,
    Pages,
    Redirecting,
    Sleep,
    Slow,
    SlowBody,
    Stall,
    Warming,
)
from tests.services.known_servers import ROOT, KnownServer
from tests.services.raw_http import RawClient, message
from tests.services.waiting import wait_until

REQUEST = message("POST", "/infer", b'{"x": 1}')

PARENT = """
import os, sys
from tests.services.known_behaviours import Sleep
from tests.services.known_servers import KnownServer
server = KnownServer(Sleep())
server.__enter__()
print(server.pid, flush=True)
sys.stdin.read()
os._exit(0)
"""


def timed(client: RawClient) -> tuple[int, bytes, float]:
    """Status, body and milliseconds of one request."""
    started = time.monotonic()
    answer = client.ask(REQUEST)
    return answer.status, answer.body, 1_000 * (time.monotonic() - started)


def times_of(behaviour: AnyBehaviour, count: int) -> list[float]:
    """Milliseconds of that many right answers, one after the other on one connection."""
    with KnownServer(behaviour) as server, RawClient(server.port) as client:
        answers = [timed(client) for _ in range(count)]
    assert {(status, body) for status, body, _ in answers} == {(200, OK_BODY)}
    return [ms for _, _, ms in answers]


def timed_for_ever(client: RawClient) -> None:
    """One request after the other, until one fails."""
    while True:
        timed(client)


def is_refused(server: KnownServer) -> bool:
    try:
        socket.create_connection((server.host, server.port), 5.0).close()
    except ConnectionRefusedError:
        return True
    return False


def all_that_comes(behaviour: AnyBehaviour) -> bytes:
    """What one request brings until the server closes."""
    with KnownServer(behaviour) as server, RawClient(server.port) as client:
        client.send(REQUEST)
        return client.rest()


# how long it takes


def test_sleep_takes_as_long_as_it_says() -> None:
    assert min(times_of(Sleep(ms=20), 4)) >= 20


def test_two_hundred_connections_at_once_are_all_counted() -> None:
    with KnownServer(Sleep(ms=5)) as server:
        with ExitStack() as stack:
            clients = [stack.enter_context(RawClient(server.port)) for _ in range(200)]
            for _ in range(2):
                for client in clients:
                    client.send(REQUEST)
                assert {client.answer().status for client in clients} == {200}
        report = server.stop()
        assert server.stop() is None
    assert report is not None
    assert (report.connections, report.most_open, report.requests, report.answered) == (200, 200, 400, 400)


def test_cycle_takes_each_time_once() -> None:
    times = times_of(Cycle(first_ms=1, last_ms=4), 8)
    assert all(took >= wanted for took, wanted in zip(times, [1, 2, 3, 4] * 2, strict=True))


def test_lognormal_takes_the_times_that_it_drew() -> None:
    behaviour = Lognormal(median_ms=5, sigma=0.5, seed=3)
    drawn = [*itertools.islice(behaviour.times_ms(), 30)]
    assert all(took >= wanted - 0.001 for took, wanted in zip(times_of(behaviour, 30), drawn, strict=True))
    many = [*itertools.islice(behaviour.times_ms(), 20_000)]
    assert median(many) == pytest.approx(5, rel=0.02)


def test_stall_freezes_once_in_each_period() -> None:
    with KnownServer(Stall(every_s=0.3, for_s=0.1)) as server, RawClient(server.port) as client:
        started = time.monotonic()
        times = []
        while time.monotonic() - started < 0.95:
            times.append(timed(client)[2])
    assert sum(ms >= 80 for ms in times) >= 2
    assert median(times) < 80


def test_slow_works_on_one_request_at_a_time() -> None:
    with KnownServer(Slow(ms=10)) as server, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(server.port)) for _ in range(10)]
        started = time.monotonic()
        for client in clients:
            client.send(REQUEST)
        for place, client in enumerate(clients, 1):
            assert client.answer().status == 200
            assert time.monotonic() - started >= 0.01 * place


def test_alternate_is_fast_then_slow() -> None:
    with KnownServer(Alternate(period_s=0.15, fast_ms=1, slow_ms=40)) as server, RawClient(server.port) as client:
        times = [timed(client)[2] for _ in range(10)]
        wait_until(lambda: timed(client)[2] >= 40)
        wait_until(lambda: timed(client)[2] < 40)
    assert min(times[:3]) < 40


def test_warming_is_slow_at_first_only() -> None:
    with KnownServer(Warming(first_s=0.15, first_ms=40, ms=1)) as server, RawClient(server.port) as client:
        assert timed(client)[2] >= 40
        wait_until(lambda: timed(client)[2] < 40)


# how it fails


@pytest.mark.parametrize(("kind", "status", "body"), [("status", 429, ERROR_BODY), ("body", 200, ERROR_BODY)])
def test_errors_are_a_share_of_the_answers(kind: Literal["status", "body"], status: int, body: bytes) -> None:
    with KnownServer(Errors(kind=kind, share=0.3, error_ms=1, ms=15)) as server, RawClient(server.port) as client:
        answers = [timed(client) for _ in range(20)]
    errors = [answer for answer in answers if answer[:2] == (status, body)]
    right = [answer for answer in answers if answer[:2] == (200, OK_BODY)]
    assert (len(errors), len(right)) == (6, 14)
    assert min(ms for _, _, ms in right) >= 15


def test_errors_may_be_silence() -> None:
    with KnownServer(Errors(kind="silence", share=0.1, ms=0)) as server, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(server.port)) for _ in range(10)]
        for client in clients[:9]:
            assert client.ask(REQUEST).status == 200
        clients[9].send(REQUEST)
        assert clients[0].ask(REQUEST).status == 200
        report = server.stop()
    assert report is not None
    assert (report.requests, report.answered) == (11, 10)


def test_dying_may_be_the_end_of_the_process() -> None:
    with KnownServer(Dying(after_s=0.1, ending="exit")) as server:
        with RawClient(server.port) as client:
            assert client.ask(REQUEST).status == 200
            assert client.rest() == b""
        wait_until(lambda: is_refused(server))  # the kernel may end a process's connections before its listener
        assert server.stop() is None


def test_dying_may_be_resets() -> None:
    with KnownServer(Dying(after_s=0.05, ending="reset")) as server, RawClient(server.port) as client:
        with pytest.raises(ConnectionResetError):
            timed_for_ever(client)
        with RawClient(server.port) as another, pytest.raises(ConnectionResetError):
            another.ask(REQUEST)


def test_dying_may_be_silence() -> None:
    with KnownServer(Dying(after_s=0.05, ending="silence")) as server, RawClient(server.port, timeout_s=0.3) as client:
        with pytest.raises(TimeoutError):
            timed_for_ever(client)
        with RawClient(server.port, timeout_s=0.1) as another, pytest.raises(TimeoutError):
            another.ask(REQUEST)


def test_dying_may_be_no_new_connections() -> None:
    with KnownServer(Dying(after_s=0.05, ending="refuse")) as server, RawClient(server.port) as client:
        assert client.ask(REQUEST).status == 200
        wait_until(lambda: is_refused(server))
        assert client.ask(REQUEST).status == 200


def test_garbage_is_no_http() -> None:
    with KnownServer(Garbage()) as server, pytest.raises(httpx.RemoteProtocolError):
        httpx.get(server.url)


@pytest.mark.parametrize(("sent", "tail"), [("nothing", b""), ("head", b"\r\n\r\n"), ("half", b'\r\n\r\n{"ok":')])
def test_early_close_leaves_an_answer_unfinished(sent: Literal["nothing", "head", "half"], tail: bytes) -> None:
    received = all_that_comes(EarlyClose(sent=sent))
    assert received.endswith(tail)
    assert (b"Content-Length: %d" % len(OK_BODY) in received) == (sent != "nothing")


# how the answer comes


def test_redirecting_names_another_place() -> None:
    with KnownServer(Redirecting(location="http://localhost:1/x")) as server:
        answer = httpx.get(server.url)
    assert (answer.status_code, answer.headers["location"]) == (307, "http://localhost:1/x")


def test_chunked_has_no_length() -> None:
    with KnownServer(Chunked(pieces=3, ms=5, with_trailer=True)) as server, httpx.Client() as client:
        for _ in range(2):
            answer = client.get(server.url)
            assert (answer.content, answer.headers["transfer-encoding"]) == (OK_BODY, "chunked")
    with KnownServer(Chunked(pieces=2)) as server, RawClient(server.port) as client_of_bytes:
        assert [timed(client_of_bytes)[1] for _ in range(2)] == [OK_BODY, OK_BODY]


def test_slow_body_comes_after_its_head() -> None:
    assert min(times_of(SlowBody(pieces=3, ms=10), 2)) >= 30


@pytest.mark.parametrize("with_length", [True, False])
def test_closing_ends_each_connection(with_length: bool) -> None:
    received = all_that_comes(Closing(with_length=with_length))
    assert received.endswith(b"\r\n\r\n" + OK_BODY)
    assert (b"Connection: close" in received) == (b"Content-Length" in received) == with_length


def test_pages_are_found_by_their_path() -> None:
    with KnownServer(Pages(pages={"/a": "text of é", "/b?c=1": ""})) as server:
        answers = [httpx.get(f"{server.url}{path}") for path in ("/a", "/b?c=1", "/")]
    assert [(answer.status_code, answer.text[:9]) for answer in answers[:2]] == [(200, "text of é"), (200, "")]
    assert answers[2].status_code == 404


# event streams


def words_of(behaviour: Events) -> list[str]:
    """What OpenAI's own client reads."""
    with KnownServer(behaviour) as server, OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
        stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}], stream=True)
        return [piece.choices[0].delta.content or "" for piece in stream]


@pytest.mark.parametrize("pieces", ["event", "joined", "split"])
def test_events_are_a_completion_however_they_are_cut(pieces: Literal["event", "joined", "split"]) -> None:
    started = time.monotonic()
    words = words_of(Events(tokens=9, first_ms=20, token_ms=5, pieces=pieces))
    assert words == [*itertools.islice(itertools.cycle(TEXTS), 9)]
    assert time.monotonic() - started >= 0.04


def test_split_events_are_cut_within_a_character() -> None:
    with KnownServer(Events(tokens=1, pieces="split")) as server, httpx.stream("POST", server.url) as answer:
        pieces = [*answer.iter_raw()]
    with pytest.raises(UnicodeDecodeError):
        pieces[0].decode()
    assert TEXTS[0] in b"".join(pieces).decode()


@pytest.mark.parametrize(
    ("ending", "tokens", "last"), [("done", 8, b"[DONE]\n\n"), ("missing", 8, b"}\n\n"), ("cut", 4, b"}\n\n")]
)
def test_events_may_end_too_early(ending: Literal["done", "missing", "cut"], tokens: int, last: bytes) -> None:
    with KnownServer(Events(tokens=8, first_ms=1, token_ms=1, ending=ending)) as server:
        received = b""
        try:
            with httpx.stream("POST", server.url) as answer:
                for piece in answer.iter_raw():
                    received += piece
            was_cut = False
        except httpx.RemoteProtocolError:
            was_cut = True
    assert was_cut == (ending == "cut")
    assert received.count(b"delta") == tokens
    assert received.endswith(last)


def test_events_may_tell_of_an_error() -> None:
    with pytest.raises(APIError, match="out of memory"):
        words_of(Events(tokens=4, ending="error"))


# TLS, and its life


def test_tls_is_trusted_by_who_trusts_its_certificate() -> None:
    with KnownServer(Sleep(), tls_names=("localhost", "127.0.0.1")) as server:
        trust = ssl.create_default_context(cafile=server.ca_file)
        assert server.url.startswith("https://localhost:")
        assert httpx.get(server.url, verify=trust).content == OK_BODY
        with pytest.raises(httpx.ConnectError, match="self-signed"):
            httpx.get(server.url)
    with KnownServer(Sleep(), tls_names=("elsewhere.test",)) as server:
        trust = ssl.create_default_context(cafile=server.ca_file)
        with pytest.raises(httpx.ConnectError, match="IP address mismatch"):
            httpx.get(server.url, verify=trust)


def is_running(pid: int) -> bool:
    """A zombie that nobody has waited for has ended too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_known_server_does_not_outlive_who_started_it() -> None:
    command = [sys.executable, "-c", PARENT]
    parent = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.kill()
    parent.communicate(timeout=10.0)
    wait_until(lambda: not is_running(pid))
