"""Answers that are made, coded and sent piece by piece, and clients that do not wait for the last one."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest

from guepard.testing.running_server import Answer, RunningServer
from tests.conftest import Serve
from tests.services.codings import CODINGS, DECOMPRESS
from tests.services.onnx_models import identity, write_model
from tests.services.raw_http import LIVE, RawClient, assert_alive, gauge, infer, message, values_of
from tests.services.waiting import wait_until

RAMP = "tests/services/python_models.py:Ramp"
COUNT = 300_000


@pytest.fixture(scope="module")
def start(serve: Serve, models: Path) -> Callable[[], RunningServer]:
    ident = write_model(models / "ident", identity("FP32", ["n", "m"]))
    return lambda: serve(f"ident={ident}", f"ramp={RAMP}", "--body-timeout", "1s", "--log-sample-rate", "1")


@pytest.fixture(scope="module")
def server(start: Callable[[], RunningServer]) -> RunningServer:
    return start()


@pytest.fixture(autouse=True)
def nothing_is_left(server: RunningServer) -> Iterator[None]:
    yield
    wait_until(lambda: gauge(server, "guepard_inflight_bytes") == 0)
    assert_alive(server)


def ask_for(
    count: int, headers: tuple[str, ...] = (), *, version: str = "1.1", outputs: object = ({"name": "y"},)
) -> bytes:
    tensor = {"name": "x", "datatype": "INT64", "shape": [1], "data": [count]}
    body = json.dumps({"id": "42", "inputs": [tensor], "outputs": outputs}).encode()
    return message("POST", "/v2/models/ramp/infer", body, headers, version=version)


def numbers(count: int) -> bytes:
    return orjson.dumps(np.arange(count, dtype=np.float32) / 7, option=orjson.OPT_SERIALIZE_NUMPY)


def expected(count: int) -> bytes:
    """The answer as it is when it is written in one go."""
    output = b'{"name":"y","datatype":"FP32","shape":[%d],"data":%b}' % (count, numbers(count))
    return b'{"model_name":"ramp","model_version":"1","id":"42","outputs":[%b]}' % output


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("coding", [None, *CODINGS])
def test_the_pieces_are_what_was_written_in_one_go(server: RunningServer, coding: str | None, version: str) -> None:
    headers = (f"Accept-Encoding: {coding}", "Connection: keep-alive") if coding else ("Connection: keep-alive",)
    with RawClient(server.http_port) as client:
        for _ in range(2):
            answer = client.ask(ask_for(COUNT, headers, version=version))
            assert answer.headers.get("content-encoding") == coding
            assert ("transfer-encoding" in answer.headers) == (version == "1.1")
            assert (DECOMPRESS[coding](answer.body) if coding else answer.body) == expected(COUNT)
            assert answer.headers["vary"] == "accept-encoding"
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["guepard-model-version"] == "1"


def test_requests_sent_ahead_are_answered_in_order(server: RunningServer) -> None:
    sent = [
        (ask_for(COUNT), COUNT),
        (infer([1.0]), 1),
        (ask_for(40_000, ("Accept-Encoding: gzip",)), 40_000),
        (LIVE, 0),
    ]
    with RawClient(server.http_port) as client:
        client.send(b"".join(request for request, _ in sent))
        for _, count in sent:
            answer = client.answer()
            body = DECOMPRESS["gzip"](answer.body) if "content-encoding" in answer.headers else answer.body
            document = json.loads(body)
            assert len(document["outputs"][0]["data"]) == count if count else document == {"live": True}


@pytest.mark.parametrize("accepts", [(), ("Accept-Encoding: gzip",)])
def test_what_json_cannot_carry_is_406_and_nothing_else_is_sent(
    server: RunningServer, accepts: tuple[str, ...]
) -> None:
    with RawClient(server.http_port) as client:
        for name, problem in (("y", "NaN"), ("words", "not UTF-8")):
            answer = client.ask(ask_for(-1_000_000, accepts, outputs=[{"name": name}]))
            assert (answer.status, answer.json["code"]) == (406, "not_acceptable")
            assert problem in answer.json["error"]
        assert values_of(client.ask(infer([1.0]))) == [1.0]


def test_long_text_and_bytes_behind_it(server: RunningServer) -> None:
    """The length of the JSON is told before it, as Triton's clients need it."""
    text = [{"name": "words"}]
    mixed = [
        {"name": "words", "parameters": {"binary_data": False}},
        {"name": "y", "parameters": {"binary_data": True}},
    ]
    words = [f"wörter {number}" for number in range(100_000)]
    with RawClient(server.http_port) as client:
        assert client.ask(ask_for(1_000_000, outputs=text)).json["outputs"][0]["data"] == words
        answer = client.ask(ask_for(1_000_000, ("Accept-Encoding: gzip",), outputs=mixed))
    length = int(answer.headers["inference-header-content-length"])
    document = json.loads(answer.body[:length])
    assert document["outputs"][0]["data"] == words
    assert document["outputs"][1]["parameters"] == {"binary_data_size": 4_000_000}
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "content-encoding" not in answer.headers
    assert answer.body[length:] == (np.arange(1_000_000, dtype=np.float32) / 7).tobytes()


@pytest.mark.parametrize("accepts", [(), ("Accept-Encoding: gzip",)])
def test_who_reads_slowly_holds_up_nobody_and_no_memory(server: RunningServer, accepts: tuple[str, ...]) -> None:
    with (
        RawClient(server.http_port, receive_buffer=16_384, pause_s=0.001) as slow,
        RawClient(server.http_port) as other,
    ):
        slow.send(ask_for(COUNT, accepts))
        for _ in range(20):
            assert values_of(other.ask(infer([1.0]))) == [1.0]
        assert gauge(server, "guepard_inflight_bytes") < 2_000_000
        answer = slow.answer()
    assert (DECOMPRESS["gzip"](answer.body) if accepts else answer.body) == expected(COUNT)


def lines_of(server: RunningServer, request_id: str) -> list[dict[str, object]]:
    return [record for record in server.records() if record.get("request_id") == request_id]


@pytest.mark.parametrize("way", ["close", "reset"])
@pytest.mark.parametrize("accepts", [(), ("Accept-Encoding: gzip",)])
def test_a_client_that_leaves_midway_is_logged_as_499(
    server: RunningServer, accepts: tuple[str, ...], way: str
) -> None:
    request_id = f"left-{way}-{len(accepts)}"
    client = RawClient(server.http_port, receive_buffer=16_384)
    client.send(ask_for(3_000_000, (*accepts, f"X-Request-Id: {request_id}")))
    wait_until(lambda: gauge(server, "guepard_inflight_bytes") > 20_000)
    if way == "reset":
        client.reset()
    else:
        client.close()
    wait_until(lambda: len(lines_of(server, request_id)) > 0)
    (line,) = lines_of(server, request_id)
    assert line["status"] == 499
    assert 0 < int(str(line["bytes_out"])) < 30_000_000


def test_a_client_that_never_reads_is_given_up(server: RunningServer) -> None:
    """`body_timeout`; what it would not read is given back."""
    with RawClient(server.http_port, receive_buffer=16_384) as client:
        client.send(ask_for(3_000_000, ("X-Request-Id: unread",)))
        wait_until(lambda: len(lines_of(server, "unread")) > 0)
        (line,) = lines_of(server, "unread")
        assert line["status"] == 499
        with pytest.raises((EOFError, ConnectionError)):
            client.answer()


@pytest.mark.parametrize("accepts", [(), ("Accept-Encoding: gzip",)])
def test_a_client_that_has_finished_sending_gets_all_of_it(server: RunningServer, accepts: tuple[str, ...]) -> None:
    """No interim answer lands among the pieces, however long they take."""
    with RawClient(server.http_port, receive_buffer=16_384, pause_s=0.01) as client:
        client.send(ask_for(COUNT, accepts))
        client.finish_sending()
        answer = interim_free(client)
        assert (DECOMPRESS["gzip"](answer.body) if accepts else answer.body) == expected(COUNT)
        assert client.rest() == b""


def interim_free(client: RawClient) -> Answer:
    """The final answer; before it a client that has finished sending may be asked whether it is there."""
    while True:
        answer = client.answer()
        if answer.status != 100:
            return answer


def test_the_log_has_the_bytes_and_the_phases(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        answer = client.ask(ask_for(COUNT, ("Accept-Encoding: gzip", "X-Request-Id: whole")))
    record = server.wait_for_record('"whole"')
    assert (record["status"], record["bytes_out"]) == (200, len(answer.body))
    assert record["phases_ms"]["encode"] > 0


def test_a_drain_waits_for_the_last_piece(start: Callable[[], RunningServer]) -> None:
    server = start()
    with RawClient(server.http_port, receive_buffer=16_384, pause_s=0.002) as client:
        client.send(ask_for(2 * COUNT))
        wait_until(lambda: gauge(server, "guepard_inflight_bytes") > 20_000)
        stopping = threading.Thread(target=server.stop, args=(signal.SIGTERM,))
        stopping.start()
        answer = client.answer()
        assert answer.body == expected(2 * COUNT)
        assert client.rest() == b""
    stopping.join()
    assert server.process.returncode == 0
