"""Good requests sent in every way a client may send them, and clients that leave in the middle.

Left to later parts: several workers (kserve/kserve#6050 asks for 1 and 4).
"""

import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
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
    sleep,
    tensor_body,
    values_of,
)
from tests.services.waiting import wait_until

INFER = "/v2/models/ident/infer"
MODELS = "tests/services/python_models.py"
MAX_REQUEST_BYTES = 16 * 2**20


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    return serve(
        f"ident={write_model(models / 'ident', identity('FP32', ['n', 'm']))}",
        f"sleep={MODELS}:Sleep",
        "--max-request-bytes",
        MAX_REQUEST_BYTES,
    )


def binary(values: int) -> bytes:
    """An inference request of `values` zeros, and its answer as they come: bytes."""
    head = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,%d],"parameters":{"binary_data_size":%d}}],' % (
        values,
        4 * values,
    )
    head += b'"parameters":{"binary_data_output":true}}'
    return message("POST", INFER, head + bytes(4 * values), [f"Inference-Header-Content-Length: {len(head)}"])


def resident_bytes(server: RunningServer) -> int:
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * 4_096


def connections(server: RunningServer) -> float:
    """Without the one that asks."""
    return gauge(server, "guepard_http_connections") - 1


# Many requests on one connection


def test_a_hundred_requests_in_one_write_are_answered_in_order(server: RunningServer) -> None:
    requests = [
        (infer([float(n), 0.5]), 200)
        if n % 5
        else [
            (message("POST", "/v2/models/none/infer", b"{}"), 404),
            (message("POST", INFER, b"{"), 400),
            (message("GET", INFER), 405),
            (sleep(1), 200),
        ][n // 5 % 4]
        for n in range(100)
    ]
    with RawClient(server.http_port) as client:
        client.send(b"".join(request for request, _ in requests))
        for n, (_, status) in enumerate(requests):
            answer = client.answer()
            assert answer.status == status, n
            if n % 5:
                assert values_of(answer) == [float(n), 0.5]


def test_pipelined_requests_before_a_broken_one_are_answered(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        client.send(sleep(30) + infer([1.0]) + b"broken\r\n\r\n" + infer([2.0]))
        assert list(answers_in(client.rest())) == [200, 200, 400]


def test_a_repeated_head_brings_every_time_its_own_body(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        for n in range(100, 200):
            assert values_of(client.ask(infer([float(n)]))) == [float(n)]


def test_a_repeated_head_with_its_body_in_parts(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        request = infer([123.0, 456.0])
        head_size = request.index(b"\r\n\r\n") + 4
        assert values_of(client.ask(request)) == [123.0, 456.0]
        for cut in (1, head_size - 3, head_size - 1, head_size, head_size + 1, len(request) - 1):
            client.send_each([request[:cut], request[cut:]])
            assert values_of(client.answer()) == [123.0, 456.0]
            client.send_each([request[:cut], request[cut:] + LIVE[:10], LIVE[10:] + request])
            assert values_of(client.answer()) == [123.0, 456.0]
            assert client.answer().json == {"live": True}
            assert values_of(client.answer()) == [123.0, 456.0]


def test_what_one_connection_sends_first_never_answers_for_another(server: RunningServer) -> None:
    """A refused request with a good one behind it must not lend its head the good one's answer."""
    refused = message("POST", "/v2/repository/index", b"{}", ["Origin: http://other.example"])
    with RawClient(server.http_port) as client:
        for first, second in ((refused, LIVE), (message("POST", "/v2/models/none/infer", b""), infer([1.0]))):
            client.send(first + second)
            statuses = [client.answer().status, client.answer().status]
            assert statuses[0] in (403, 404)
            assert statuses[1] == 200
            with RawClient(server.http_port) as other:
                assert [other.ask(first).status for _ in range(3)] == [statuses[0]] * 3


def test_a_known_head_inside_another_head_is_part_of_it(server: RunningServer) -> None:
    """Where a segment begins says nothing about where a request does."""
    with RawClient(server.http_port) as client:
        assert client.ask(LIVE).status == 200
        assert client.ask(LIVE + b"GET /v2/models/none HTTP/1.1\r\nX-A: ").status == 200
        assert client.ask(LIVE).status == 404
        assert client.ask(LIVE).status == 200


def test_every_byte_in_a_segment_of_its_own(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        for request in (infer([1.0, 2.0]), chunked(INFER, [tensor_body([1.0, 2.0])], extension=b";a=b")):
            client.send_each(request[n : n + 1] for n in range(len(request)))
            assert values_of(client.answer()) == [1.0, 2.0]
        assert client.ask(LIVE).status == 200


def test_empty_lines_between_requests_are_skipped(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        for _ in range(3):
            assert client.ask(b"\r\n\r\n" + LIVE).json == {"live": True}


def test_tiny_answers_leave_at_once(server: RunningServer) -> None:
    """Head and body in two segments would cost 40 ms each here (kserve/kserve#6050)."""
    times = []
    with RawClient(server.http_port) as client:
        for n in range(50):
            started = time.perf_counter()
            assert values_of(client.ask(infer([float(n)]))) == [float(n)]
            times.append(time.perf_counter() - started)
    assert statistics.median(times[1:]) < 0.010


# Large bodies


def test_eight_megabytes_again_and_again_on_one_connection(server: RunningServer) -> None:
    request = binary(2_000_000)
    with RawClient(server.http_port) as client:
        for _ in range(4):
            answer = client.ask(request)
            assert answer.status == 200
            assert len(answer.body) - int(answer.headers["inference-header-content-length"]) == 8_000_000
        assert values_of(client.ask(infer([1.0]))) == [1.0]


def test_a_million_numbers_in_json(server: RunningServer) -> None:
    """triton-inference-server/server#5840."""
    values = [n / 8 for n in range(1_000_000)]
    with RawClient(server.http_port) as client:
        assert values_of(client.ask(infer(values))) == values
    assert_alive(server)


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_body_over_the_limit_is_refused_while_the_client_still_sends(server: RunningServer, framing: str) -> None:
    """The client reads its 413 however far it has come, and the server has not kept what it sent."""
    values_of(server.infer("ident", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}))
    before = resident_bytes(server)
    body = bytes(MAX_REQUEST_BYTES + 1)
    if framing == "length":
        request = message("POST", INFER, body)
    else:
        request = chunked(INFER, [body[start : start + 65_536] for start in range(0, len(body), 65_536)])
    with RawClient(server.http_port) as client, bounded(5.0):
        client.send(request)
        answer = client.answer()
        assert answer.status == 413
        assert str(MAX_REQUEST_BYTES) in answer.json["error"]
        assert client.rest() == b""
    wait_until(lambda: resident_bytes(server) < before + 50e6, 30.0)
    assert_alive(server)


@pytest.mark.parametrize("length", [MAX_REQUEST_BYTES + 1, 10**10, 2**63 - 1, 2**64 - 1])
def test_a_length_over_the_limit_is_refused_at_once(server: RunningServer, length: int) -> None:
    with RawClient(server.http_port) as client, bounded(1.0):
        answer = client.ask(message("POST", INFER, b"", length=length))
        assert answer.status == 413
    assert_alive(server)


# Clients that leave


def test_a_client_that_has_finished_sending_gets_its_answers(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        client.send(sleep(50) + infer([1.0]) + sleep(1))
        client.finish_sending()
        statuses = list(answers_in(client.rest()))
    assert [status for status in statuses if status != 100] == [200, 200, 200]
    assert statuses[0] == 100, "whether such a client is still there is found out by an interim answer"


def test_a_client_that_closes_its_socket_while_it_waits_costs_no_execution(server: RunningServer) -> None:
    """Its close looks like that of a client that has only finished sending, until something is sent to it."""
    labels = '{model="sleep",version="1"}'
    executions = gauge(server, f"guepard_inference_executions_total{labels}")
    with RawClient(server.http_port) as busy:
        busy.send(sleep(4_000))
        wait_until(lambda: gauge(server, f"guepard_executing_requests{labels}") == 1)
        leaving = [RawClient(server.http_port) for _ in range(5)]
        for client in leaving:
            client.send(sleep(50))
        wait_until(lambda: gauge(server, f"guepard_queue_depth{labels}") == 5)
        for client in leaving:
            client.close()
        wait_until(lambda: gauge(server, f"guepard_queue_depth{labels}") == 0)
        assert busy.answer().status == 200
    assert gauge(server, f"guepard_inference_executions_total{labels}") == executions + 1


@pytest.mark.parametrize("sent", [b"", b"GET /v2", infer([1.0])[:-5], chunked(INFER, [b"abc"])[:-5]])
def test_a_client_that_finishes_in_the_middle_gets_the_end(server: RunningServer, sent: bytes) -> None:
    with RawClient(server.http_port) as client, bounded(5.0):
        client.send(sent)
        client.finish_sending()
        assert client.rest() == b""


@pytest.fixture
def many(server: RunningServer) -> Iterator[list[RawClient]]:
    clients = [RawClient(server.http_port) for _ in range(20)]
    yield clients
    for client in clients:
        client.close()


def test_clients_that_leave_in_the_middle_leave_nothing_behind(server: RunningServer, many: list[RawClient]) -> None:
    stages = [b"", b"GET", infer([1.0])[:-5], infer([1.0]), sleep(20), sleep(20) * 3, infer([2.0]) * 50]
    for number, client in enumerate(many):
        client.send(stages[number % len(stages)])
    for client in many:
        client.close()
    wait_until(lambda: connections(server) == 0 and gauge(server, "guepard_inflight_bytes") == 0)
    assert_alive(server)


def test_a_client_that_does_not_read_is_not_worked_for_without_end(server: RunningServer) -> None:
    """Its answers fill the socket, then it is not read from; others are served meanwhile, and it gets all at last."""
    request = binary(250_000)
    count = 120
    with RawClient(server.http_port, receive_buffer=65_536, timeout_s=30.0) as client:
        sender = threading.Thread(target=client.send, args=(request * count,))
        sender.start()
        before = resident_bytes(server)
        with RawClient(server.http_port) as other:
            for n in range(20):
                assert values_of(other.ask(infer([float(n)]))) == [float(n)]
        assert sender.is_alive(), "the server took in all requests though nobody reads their answers"
        assert resident_bytes(server) - before < 60e6
        assert [client.answer().status for _ in range(count)] == [200] * count
        sender.join(10.0)
        assert not sender.is_alive()
    assert_alive(server)
