"""What the log says of each request: its own id, its phases, its error; and how much of it under load.

Records of gRPC calls: `test_grpc_life.py`. Those of streams belong to later parts of the server.
"""

import http.client
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from guepard.core.phases import PHASES
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.callers import one_input
from tests.services.raw_http import RawClient, message
from tests.services.waiting import wait_until

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    onnx_models.write_model(models / "double.onnx", onnx_models.double(1))
    return serve(models / "double.onnx", f"fail={PYTHON_MODELS}:FailNegative")


def test_a_success_is_told_with_its_phases(server: RunningServer) -> None:
    headers = {"X-Request-Id": "a-success"}
    answer = server.infer("double", one_input("FP32", [1.0]), headers)
    assert answer.headers["x-request-id"] == "a-success"
    record = server.wait_for_record('"a-success"')
    assert (record["level"], record["logger"], record["message"]) == ("info", "guepard.access", "request")
    assert (record["method"], record["path"]) == ("POST", "/v2/models/double/infer")
    assert (record["status"], record["model"]) == (200, "double")
    assert record["bytes_in"] == len(json.dumps(one_input("FP32", [1.0])))
    assert record["bytes_out"] == len(answer.body)
    assert tuple(record["phases_ms"]) == PHASES
    assert sum(record["phases_ms"].values()) == pytest.approx(record["duration_ms"], abs=0.05)
    assert "error_code" not in record


@pytest.mark.parametrize("binary", [False, True])
def test_the_answer_tells_the_same_phases_but_the_last(server: RunningServer, binary: bool) -> None:
    name = f"timed-{binary}"
    body = one_input("FP32", [1.0], parameters={"binary_data_output": binary})
    answer = server.infer("double", body, {"X-Request-Id": name})
    assert ("inference-header-content-length" in answer.headers) == binary
    told = dict(entry.split(";dur=") for entry in answer.headers["server-timing"].split(", "))
    assert tuple(told) == PHASES[:-1]
    logged = server.wait_for_record(f'"{name}"')["phases_ms"]
    for phase, duration in told.items():
        assert re.fullmatch(r"\d+\.\d{3}", duration)
        assert float(duration) == pytest.approx(logged[phase], abs=0.0011)


def test_only_inference_that_was_executed_is_timed(server: RunningServer) -> None:
    assert "server-timing" not in server.infer("double", one_input("INT32", [1])).headers
    assert "server-timing" not in server.infer("fail", one_input("FP32", [-1.0])).headers
    assert "server-timing" not in server.request("GET", "/v2/models/double").headers


def test_the_protocol_s_id_is_told(server: RunningServer) -> None:
    answer = server.infer("double", one_input("FP32", [1.0], id="an-oip-id"))
    assert answer.json["id"] == "an-oip-id"
    record = server.wait_for_record('"an-oip-id"')
    assert record.get("inference_id", record["request_id"]) == "an-oip-id"


def test_beside_the_header_the_protocol_s_id_is_told_too(server: RunningServer) -> None:
    server.infer("double", one_input("FP32", [1.0], id="inner-id"), {"X-Request-Id": "outer-id"})
    record = server.wait_for_record('"outer-id"')
    assert (record["request_id"], record["inference_id"]) == ("outer-id", "inner-id")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v2/models/double/infer", "{", 400, "invalid_argument"),
        ("/v2/models/fail/infer", one_input("FP32", [-1.0]), 500, "model_error"),
        ("/v2/models/nope/infer", one_input("FP32", [1.0]), 404, "not_found"),
        ("/nothing", None, 404, "not_found"),
    ],
)
def test_an_error_s_answer_and_its_record_share_an_id(
    server: RunningServer, path: str, body: Any, status: int, code: str
) -> None:
    answer = server.request("GET" if body is None else "POST", path, body)
    record = server.wait_for_record(f'"{answer.headers["x-request-id"]}"')
    assert record["level"] == ("warning" if status >= 500 else "info")
    assert (record["status"], record["error_code"]) == (status, code)
    assert record["error_message"] == answer.json["error"]


def test_an_id_cannot_forge_a_record(server: RunningServer) -> None:
    forged = 'x", "level": "error", "y": "\u00e9'
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port)
    connection.request("GET", "/an-id-that-forges", headers={"X-Request-Id": forged})
    connection.getresponse().read()
    connection.close()
    server.wait_for_record("/an-id-that-forges")
    (record,) = [record for record in server.records() if record.get("request_id") == forged]
    assert record["level"] == "info"


def test_errors_that_are_left_out_of_the_log_are_counted_there_without_a_further_one(server: RunningServer) -> None:
    with RawClient(server.http_port) as client:
        client.send(message("GET", "/a-storm") * 1_000)
        assert {client.answer().status for _ in range(1_000)} == {404}

    def accounted() -> int:
        records = server.records()
        return sum(record.get("path") == "/a-storm" or record.get("left_out", 0) for record in records)

    wait_until(lambda: accounted() == 1_000)


@pytest.mark.parametrize(("rate", "share"), [("0", 0.0), ("0.1", 0.1)])
def test_successes_are_sampled_above_a_hundred_a_second_and_errors_are_not(
    serve: Serve, models: Path, rate: str, share: float
) -> None:
    onnx_models.write_model(models / "double.onnx", onnx_models.double(1))
    server = serve(models / "double.onnx", "--log-sample-rate", rate)
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port)
    body = json.dumps(one_input("FP32", [1.0]))
    count, started = 0, time.monotonic()
    while time.monotonic() - started < 1.2 or count < 600:
        connection.request("POST", "/v2/models/double/infer", body, {"Content-Type": "application/json"})
        assert connection.getresponse().read()
        count += 1
        if count % 100 == 0:
            connection.request("POST", "/v2/models/double/infer", "{", {"X-Request-Id": f"error-{count}"})
            connection.getresponse().read()
    seconds = time.monotonic() - started
    connection.close()
    server.wait_for_record(f"error-{count // 100 * 100}")
    told = Counter(record["status"] for record in server.records() if record.get("message") == "request")
    assert told[415] + told[400] == count // 100
    # A second that follows a light one begins with a hundred that are told whatever the rate.
    assert share * (count - 100) - 5 <= told[200] <= share * count + 100 * (seconds + 1)
    assert told[200] < count
