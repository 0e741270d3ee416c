"""Bounds of time and size, with values short enough to be met here, and what is given back when they are."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.callers import one_input
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import (
    LIVE,
    RawClient,
    answers_in,
    assert_alive,
    bounded,
    chunked,
    gauge,
    infer,
    message,
    tensor_body,
    values_of,
)
from tests.services.waiting import wait_until

INFER = "/v2/models/ident/infer"
SLEEP = "/v2/models/sleep/infer"
PYTHON = {"sleep": "Sleep", "zeros": "Zeros"}
MIB = 2**20
# The limits below are 1 s and are looked at once a second; the rest is slack for a busy machine.
LATEST_S = 6.0


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    limits = ("--header-timeout", "1s", "--body-timeout", "1s", "--keep-alive", "1s")
    sizes = ("--max-request-bytes", "1MiB", "--max-inflight-bytes", "3MiB")
    ident = write_model(models / "ident", identity("FP32", ["n", "m"]))
    python = [f"{name}=tests/services/python_models.py:{entry}" for name, entry in PYTHON.items()]
    return serve(f"ident={ident}", *python, *limits, *sizes)


@pytest.fixture(autouse=True)
def nothing_is_left(server: RunningServer) -> Iterator[None]:
    """After every test: no bytes in flight, no connection but the one that asks, and the server well."""
    yield
    wait_until(lambda: gauge(server, "guepard_inflight_bytes") == 0 and gauge(server, "guepard_http_connections") == 1)
    assert_alive(server)


@contextmanager
def dripping(client: RawClient, piece: bytes, pause_s: float = 0.1) -> Iterator[None]:
    """`piece` again and again, until the block ends or the server has had enough."""
    stop = threading.Event()

    def drip() -> None:
        try:
            while not stop.wait(pause_s):
                client.send(piece)
        except OSError:
            return

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


HALF_BODY = message("POST", INFER, b"{", length=1_000)

STALLED: dict[str, tuple[bytes, list[int]]] = {
    "says nothing": (b"", []),
    "half a request line": (b"GET /v2", [408]),
    "half a head": (LIVE[:-2], [408]),
    "half a body": (HALF_BODY, [408]),
    "no body": (message("POST", INFER, b"", length=1_000), [408]),
    "half a chunk": (chunked(INFER, [b"abcdef"])[:-12], [408]),
    "no last chunk": (chunked(INFER, [b"abcdef"])[:-5], [408]),
    "waits for leave and does not use it": (
        message("POST", INFER, b"", ["Expect: 100-continue"], length=9),
        [100, 408],
    ),
    "half a body after a request": (infer([1.0]) + HALF_BODY, [200, 408]),
    "half a body of a known head": (infer([1.0])[:-4], [408]),
    "half a refused body": (message("POST", "/v2/models/none/infer", b"{", length=9), [408]),
    "half a head after a request": (LIVE + LIVE[:-2], [200, 408]),
    "idle after a request": (LIVE, [200]),
}


def test_clients_that_stall_are_answered_and_let_go_and_hold_nobody_up(server: RunningServer) -> None:
    clients = {name: RawClient(server.http_port) for name in STALLED}
    with bounded(LATEST_S):
        for name, (sent, _) in STALLED.items():
            clients[name].send(sent)
        with RawClient(server.http_port) as good:
            for n in range(20):
                started = time.perf_counter()
                assert values_of(good.ask(infer([float(n)]))) == [float(n)]
                assert time.perf_counter() - started < 0.5
        answered = {name: list(answers_in(client.rest())) for name, client in clients.items()}
    for client in clients.values():
        client.close()
    assert answered == {name: statuses for name, (_, statuses) in STALLED.items()}


def test_a_head_that_trickles_in_is_out_of_time_all_the_same(server: RunningServer) -> None:
    with RawClient(server.http_port) as client, bounded(LATEST_S):
        client.send(LIVE[:-2])
        with dripping(client, b"X-A: b\r\n"):
            assert client.answer().status == 408


def test_a_body_that_keeps_coming_is_waited_for(server: RunningServer) -> None:
    """body_timeout is about pauses: this body takes twice as long as it allows."""
    request = infer([float(n) for n in range(8)])
    head_size = request.index(b"\r\n\r\n") + 4
    with RawClient(server.http_port) as client:
        client.send(request[:head_size])
        body = request[head_size:]
        step = -(-len(body) // 8)
        for start in range(0, len(body), step):
            time.sleep(0.25)
            client.send(body[start : start + step])
        assert values_of(client.answer()) == [float(n) for n in range(8)]


def test_a_slow_model_is_no_slow_client(server: RunningServer) -> None:
    """None of the time limits runs while the server is the one that works."""
    with RawClient(server.http_port) as client:
        client.send(message("POST", SLEEP, tensor_body([2_500], "INT32")) + HALF_BODY)
        assert client.answer().status == 200
        assert client.answer().status == 408


def test_a_client_that_does_not_read_is_cut_off(server: RunningServer) -> None:
    with RawClient(server.http_port, receive_buffer=4_096) as client:
        sender = threading.Thread(target=_send_until_cut, args=(client, _growing(25_000) * 300))
        sender.start()
        sender.join(30.0)
        assert not sender.is_alive()


def test_a_client_that_reads_slowly_but_steadily_gets_all_of_a_large_answer(server: RunningServer) -> None:
    """body_timeout is about pauses here too: this answer takes several times as long as it allows."""
    size = 14_000_000
    request = one_input("INT32", [size], parameters={"binary_data_output": True})
    with RawClient(server.http_port, receive_buffer=65_536, pause_s=0.03) as client:
        started = time.monotonic()
        answer = client.ask(message("POST", "/v2/models/zeros/infer", json.dumps(request).encode()))
        took = time.monotonic() - started
    assert answer.status == 200
    assert len(answer.body) - int(answer.headers["inference-header-content-length"]) == size
    assert took > 3.5, "it was read too fast to say anything"


def _growing(values: int) -> bytes:
    """A request whose answer is five times as long: the bytes of numbers come back as text."""
    data = np.full(values, 1 / 3, np.float32).tobytes()
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, values], "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [tensor]}).encode()
    return message("POST", INFER, head + data, [f"Inference-Header-Content-Length: {len(head)}"])


def _send_until_cut(client: RawClient, data: bytes) -> None:
    with pytest.raises(ConnectionError):
        client.send(data)


def test_more_bytes_than_may_be_in_flight_are_refused_at_the_door(server: RunningServer) -> None:
    """Three bodies of which only the heads have come fill the bound; the fourth is told to come again."""
    promise = message("POST", INFER, b"", length=MIB)
    holders = [RawClient(server.http_port) for _ in range(3)]
    for holder in holders:
        holder.send(promise)
    wait_until(lambda: gauge(server, "guepard_inflight_bytes") == 3 * MIB)
    with RawClient(server.http_port) as client:
        for _ in range(2):
            refused = client.ask(infer([1.0]))
            assert (refused.status, refused.json["code"]) == (429, "overloaded")
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json["retry_after_ms"] > 0
        assert client.ask(LIVE).status == 200, "what has no body passes"
        holders.pop().close()
        wait_until(lambda: gauge(server, "guepard_inflight_bytes") == 2 * MIB)
        assert values_of(client.ask(infer([1.0]))) == [1.0]
    for holder in holders:
        holder.close()


ENDLESS = {
    "trailers": (b"0\r\n", b"a: b\r\n"),
    "name of a trailer": (b"0\r\n", b"z"),
    "value of a trailer": (b"0\r\na: ", b"z"),
    "chunk extension": (b"1;", b"z"),
    "value of a chunk extension": (b'1;a="', b"z"),
    "chunk size": (b"", b"0"),
}


@pytest.mark.parametrize(("start", "piece"), ENDLESS.values(), ids=ENDLESS)
def test_framing_without_end_is_refused_as_soon_as_it_is_too_long(
    server: RunningServer, start: bytes, piece: bytes
) -> None:
    with RawClient(server.http_port) as client, bounded(LATEST_S):
        client.send(chunked(INFER, [b"x"])[:-5] + start)
        client.send(piece * (MIB // len(piece)))
        assert list(answers_in(client.rest())) == [431]


def test_chunks_count_as_they_come(server: RunningServer) -> None:
    holders = [RawClient(server.http_port) for _ in range(3)]
    unfinished = chunked(INFER, [bytes(65_536)] * 15)[:-5]
    for holder in holders:
        holder.send(unfinished)
    wait_until(lambda: gauge(server, "guepard_inflight_bytes") == 45 * 65_536)
    with RawClient(server.http_port) as client:
        client.send(chunked(INFER, [bytes(65_536)] * 5))
        assert list(answers_in(client.rest())) == [429]
    for holder in holders:
        holder.close()


@pytest.mark.parametrize(
    "sent",
    [
        message("POST", INFER, b"{" * 50_000, length=900_000),
        chunked(INFER, [b"{" * 50_000])[:-5],
        message("POST", INFER, b"{" * 50_000),
        message("POST", INFER, bytes(100), length=MIB + 1),
        message("POST", "/v2/models/none/infer", bytes(70_000)),
        message("POST", INFER, bytes(1_000), ["Content-Encoding: gzip"]),
        chunked(INFER, [bytes(65_536)] * 17),
        chunked(INFER, [b"abc"])[:-5] + b"broken",
        message("POST", SLEEP, tensor_body([100], "INT32")),
        message("POST", SLEEP, tensor_body([100], "INT32")) * 4 + HALF_BODY,
        infer([1.0]) + infer([2.0])[:-3],
        infer([1.0], ["Upgrade: h2c", "Connection: Upgrade"])[:-3],
    ],
)
@pytest.mark.parametrize("way", ["close", "reset", "half-close"])
def test_permits_come_back_however_a_request_ends(server: RunningServer, sent: bytes, way: str) -> None:
    """`nothing_is_left` is the assertion."""
    with RawClient(server.http_port) as client:
        client.send(sent)
        if way == "reset":
            client.reset()
        elif way == "half-close":
            client.finish_sending()
            list(answers_in(client.rest()))


def test_the_metrics_port_has_the_same_limits(server: RunningServer) -> None:
    with RawClient(server.metrics_port) as client, bounded(LATEST_S):
        client.send(b"GET /metrics HT")
        assert client.answer().status == 408
    with RawClient(server.metrics_port) as client:
        assert client.ask(message("GET", "/metrics")).status == 200
        assert client.ask(message("GET", "/v2/health/live")).status == 404
        assert client.ask(message("POST", "/metrics", b"", length=MIB + 1)).status == 405


def test_a_connection_that_was_never_used_does_not_stay(server: RunningServer) -> None:
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=LATEST_S) as idle:
        assert idle.recv(1) == b""
