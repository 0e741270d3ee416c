"""Every request is counted once, the same wherever one looks, and nothing a client makes up becomes a label.

Those of gRPC calls: `test_grpc_life.py`. Counters of caches and tenants belong to later parts of the server.
"""

import http.client
import json
import random
import socket
import string
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from guepard.core.phases import PHASES
from guepard.testing.running_server import Answer, RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.callers import Call, call_together, one_input
from tests.services.waiting import wait_until

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"
INFER = "/v2/models/{model}/infer"

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    onnx_models.write_model(models / "double.onnx", onnx_models.double(1))
    onnx_models.write_model(models / "divide.onnx", onnx_models.divide(1))
    python = "backend: python, trust: true"
    (models / "guepard.yaml").write_text(
        f"""
models:
  - {{name: double, path: double.onnx}}
  - {{name: divide, path: divide.onnx}}
  - {{name: fail, path: '{PYTHON_MODELS}:FailNegative', {python}}}
  - {{name: stream, path: '{PYTHON_MODELS}:Stream', {python}}}
  - name: sleep
    path: '{PYTHON_MODELS}:Sleep'
    {python.replace(", ", chr(10) + "    ")}
    max_batch_size: 1
    dynamic_batching: {{max_queue_size: 1}}
"""
    )
    return serve("--config", models / "guepard.yaml")


def scrape(server: RunningServer) -> Series:
    """The whole numbers that only grow: counters and the counts of histograms, without those of the scrape itself."""
    found = {}
    for family in text_string_to_metric_families(server.metrics()):
        for sample in family.samples:
            if sample.name.endswith(("_total", "_count")) and sample.labels.get("route") != "/metrics":
                found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return {key: value for key, value in found.items() if not key[0].startswith("process_")}


def moved(before: Series, after: Series) -> dict[str, float]:
    """What grew, as `name{label values}`."""
    steps = {key: value - before.get(key, 0.0) for key, value in after.items()}
    return {
        f"{name}{{{','.join(value for _, value in labels)}}}": step for (name, labels), step in steps.items() if step
    }


def success(model: str, rows: int = 1, reason: str = "idle") -> dict[str, float]:
    """What one request that is answered by an execution of its own moves, beside the HTTP count."""
    label = f"{{{model},1}}"
    durations = {f"guepard_inference_{phase}_duration_seconds_count{label}": 1.0 for phase in ("request", *PHASES)}
    return execution(model, rows, reason) | durations | {f"guepard_inference_requests_total{label}": 1.0}


def execution(model: str, rows: int = 1, reason: str = "idle") -> dict[str, float]:
    """What an execution moves, whether or not anybody still waits for its result."""
    return {
        f"guepard_inference_rows_total{{{model},1}}": float(rows),
        f"guepard_inference_executions_total{{{model},1}}": 1.0,
        f"guepard_batch_release_total{{{model},{reason},1}}": 1.0,
        f"guepard_batch_size_count{{{model},1}}": 1.0,
    }


def failure(model: str, reason: str) -> dict[str, float]:
    return {f"guepard_inference_failures_total{{{model},{reason},1}}": 1.0}


def answered(code: int, route: str = INFER) -> dict[str, float]:
    return {f"api_request_duration_seconds_count{{{code},{route}}}": 1.0}


def infer(model: str, body: dict[str, Any] | bytes, headers: dict[str, str] | None = None) -> Callable[..., Answer]:
    return lambda server: server.request("POST", f"/v2/models/{model}/infer", body, headers)


def get(path: str) -> Callable[..., Answer]:
    return lambda server: server.request("GET", path)


class TestCounters:
    @pytest.mark.parametrize(
        ("act", "expected"),
        [
            (infer("double", one_input("FP32", [1.0])), success("double") | answered(200)),
            (infer("double", one_input("FP32", [1.0] * 3)), success("double", 3) | answered(200)),
            (infer("fail", one_input("FP32", [1.0])), success("fail") | answered(200)),
            (infer("double", b"{"), failure("double", "INVALID") | answered(400)),
            (infer("double", one_input("FP32", [1.0], [1, 1, 1])), failure("double", "INVALID") | answered(400)),
            (infer("fail", one_input("FP32", [-1.0])), failure("fail", "BACKEND") | answered(500)),
            (infer("fail", one_input("FP32", [-1.0, 1.0])), failure("fail", "BACKEND") | answered(500)),
            (
                infer("sleep", one_input("INT32", [200]), {"Guepard-Timeout-Ms": "50"}),
                failure("sleep", "TIMEOUT") | execution("sleep", reason="full") | answered(504),
            ),
            # The model did its part in these two: what could not be written is an answer.
            (infer("divide", one_input("FP32", [0.0])), success("divide") | answered(406)),
            (infer("stream", one_input("INT32", [2])), success("stream", reason="full") | answered(501)),
            (infer("nope", one_input("FP32", [1.0])), answered(404)),
            (infer("double", one_input("FP32", [1.0]), {"Content-Type": "text/csv"}), answered(415)),
            (get("/v2/models/double"), answered(200, "/v2/models/{model}")),
            (get("/v2/models/double/versions/9"), answered(404, "/v2/models/{model}/versions/{version}")),
            (get("/v2/health/live"), answered(200, "/v2/health/live")),
            (get("/nothing/here"), answered(404, "unmatched")),
            (lambda server: server.request("DELETE", "/v2"), answered(405, "unmatched")),
        ],
    )
    def test_one_request_moves_each_of_its_counters_once(
        self, server: RunningServer, act: Callable[..., Answer], expected: dict[str, float]
    ) -> None:
        before = scrape(server)
        act(server)
        wait_until_idle(server)
        assert moved(before, scrape(server)) == expected

    def test_a_full_queue(self, server: RunningServer) -> None:
        before = scrape(server)
        replies = call_together(server, [Call("sleep", one_input("INT32", [150]))] * 5)
        assert Counter(reply.status for reply in replies) == {200: 2, 429: 3}
        steps = moved(before, scrape(server))
        assert steps["guepard_inference_failures_total{sleep,REJECTED,1}"] == 3
        assert steps["guepard_inference_requests_total{sleep,1}"] == 2
        assert steps[f"api_request_duration_seconds_count{{429,{INFER}}}"] == 3

    def test_a_client_that_leaves(self, server: RunningServer) -> None:
        """It resets the connection: one that only ends its sending may still be reading, and is answered."""
        before = scrape(server)
        body = json.dumps(one_input("INT32", [300])).encode()
        connection = http.client.HTTPConnection("127.0.0.1", server.http_port)
        with closing(connection):
            connection.request("POST", "/v2/models/sleep/infer", body, {"X-Request-Id": "left"})
            wait_until(lambda: gauge(server, "guepard_executing_requests", model="sleep") == 1)
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        record = server.wait_for_record('"left"')
        wait_until_idle(server)
        assert (record["status"], record["error_code"], record["model"]) == (499, "cancelled", "sleep")
        steps = moved(before, scrape(server))
        assert steps.pop("guepard_inference_failures_total{sleep,CANCELED,1}") == 1
        assert steps == execution("sleep", reason="full")

    def test_a_request_that_is_split_counts_once(self, server: RunningServer) -> None:
        before = scrape(server)
        infer("double", one_input("FP32", [1.0] * 130))(server)
        steps = moved(before, scrape(server))
        assert steps["guepard_inference_requests_total{double,1}"] == 1
        assert steps["guepard_inference_rows_total{double,1}"] == 130
        assert steps["guepard_inference_executions_total{double,1}"] == 3
        assert steps["guepard_inference_queue_duration_seconds_count{double,1}"] == 1

    def test_a_batch_that_is_run_again_counts_what_succeeded(self, server: RunningServer) -> None:
        before = scrape(server)
        values = [1.0, 2.0, -3.0, 4.0] * 4
        replies = call_together(server, [Call("fail", one_input("FP32", [value])) for value in values])
        assert [reply.status for reply in replies] == [500 if value < 0 else 200 for value in values]
        steps = moved(before, scrape(server))
        assert steps["guepard_inference_requests_total{fail,1}"] == 12
        assert steps["guepard_inference_rows_total{fail,1}"] == 12
        assert steps["guepard_inference_failures_total{fail,BACKEND,1}"] == 4

    def test_many_at_once_add_up(self, server: RunningServer) -> None:
        before = scrape(server)
        call_together(server, [Call("double", one_input("FP32", [1.0])) for _ in range(200)])
        steps = moved(before, scrape(server))
        assert steps["guepard_inference_requests_total{double,1}"] == 200
        assert steps["guepard_inference_rows_total{double,1}"] == 200
        assert steps[f"api_request_duration_seconds_count{{200,{INFER}}}"] == 200


def gauge(server: RunningServer, name: str, **labels: str) -> float:
    for family in text_string_to_metric_families(server.metrics()):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    raise AssertionError(f"no {name} {labels}")


def wait_until_idle(server: RunningServer) -> None:
    """Until also the executions have ended whose requests had their answers before."""
    wait_until(lambda: gauge(server, "guepard_executing_requests", model="sleep") == 0)


@pytest.mark.parametrize("model", ["double", "fail", "sleep"])
def test_the_statistics_route_says_what_the_metrics_say(server: RunningServer, model: str) -> None:
    datatype = "INT32" if model == "sleep" else "FP32"
    calls = [Call(model, one_input(datatype, [value] * rows)) for value, rows in ((1, 1), (2, 1), (-3, 1), (4, 3))]
    for call in (*calls, Call(model, b"not JSON")):
        call_together(server, [call])
    (document,) = server.request("GET", f"/v2/models/{model}/stats").json["model_stats"]
    inference = document["inference_stats"]
    totals: Counter[str] = Counter()
    for family in text_string_to_metric_families(server.metrics()):
        for sample in family.samples:
            if sample.labels.get("model") == model:
                totals[sample.name] += sample.value  # type: ignore[assignment]
    assert document["inference_count"] == totals["guepard_inference_rows_total"]
    assert document["execution_count"] == totals["guepard_inference_executions_total"]
    assert inference["success"]["count"] == totals["guepard_inference_requests_total"]
    assert inference["fail"]["count"] == totals["guepard_inference_failures_total"]
    for stat, histogram in {
        "success": "request",
        "queue": "queue",
        "compute_input": "input",
        "compute_infer": "compute",
        "compute_output": "output",
    }.items():
        name = f"guepard_inference_{histogram}_duration_seconds"
        assert inference[stat]["count"] == totals[f"{name}_count"]
        assert inference[stat]["ns"] / 1e9 == pytest.approx(totals[f"{name}_sum"])
    assert sum(entry["compute_infer"]["count"] for entry in document["batch_stats"]) == document["execution_count"]
    assert (
        sum(e["batch_size"] * e["compute_infer"]["count"] for e in document["batch_stats"])
        == document["inference_count"]
    )
    everything = server.request("GET", "/v2/models/stats").json["model_stats"]
    assert [entry for entry in everything if entry["name"] == model] == [document]


def test_no_label_takes_what_a_client_makes_up(serve: Serve, models: Path) -> None:
    """BerriAI/litellm#35666: scanners created one time series for each random URL."""
    server = serve(onnx_models.write_model(models / "double.onnx", onnx_models.double(1)))
    random.seed(11)
    before = server.metrics().count("\n")
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port)
    statuses: Counter[int] = Counter()
    for number in range(2_000):
        word = "".join(random.choices(string.ascii_letters, k=8))
        path = (f"/{word}", f"/v2/{word}", f"/v2/models/{word}/infer", f"/v2/models/double/versions/{word}")[number % 4]
        method = ("GET", "POST", "PUT", "PATCH")[number // 4 % 4]
        body = b"{}" if method != "GET" else None
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        statuses[answer.status] += 1
    for _ in range(200):
        word = "".join(random.choices(string.ascii_uppercase, k=6))
        connection.request("GET", "/v2", headers={"Host": f"{word}.example"})
        connection.getresponse().read()
        server.request(word, "/v2")
    connection.close()
    assert set(statuses) <= {404, 405}
    lines_of_a_series = 3 + 23  # _count, _sum, _created at most, and one line a bucket
    assert server.metrics().count("\n") - before <= 10 * lines_of_a_series
    routes = {
        sample.labels["route"]
        for family in text_string_to_metric_families(server.metrics())
        for sample in family.samples
        if "route" in sample.labels
    }
    assert all(route == "unmatched" or route.startswith(("/v2", "/metrics")) for route in routes)
    assert len(routes) < 20
