"""`guepard bench` against a real `guepard serve`, over everything that both speak."""

import json
from pathlib import Path

import numpy as np
import pytest

from guepard.measure.results import Document, Run
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.bench_command import BenchResult, run_bench

LOAD = ("--rate", "400", "--arrivals", "constant", "--duration", "0.5s", "--warmup", "0s", "--no-self-test", "--json")
REQUESTS = 200


@pytest.fixture(scope="module")
def model(models: Path) -> Path:
    return onnx_models.write_model(models / "double.onnx", onnx_models.double())


@pytest.fixture(scope="module")
def server(model: Path, serve: Serve) -> RunningServer:
    return serve(f"double={model}")


def measured(*arguments: str | Path) -> tuple[Document, Run]:
    """A short run, of which everything succeeds."""
    result = run_bench(*arguments, *LOAD)
    assert result.document is not None, result.stderr
    assert_all_right(result)
    return result.document, result.run


def assert_all_right(result: BenchResult) -> None:
    run = result.run
    assert (run.errors, run.offered, run.latency.count) == ((), REQUESTS, REQUESTS), result.stderr
    assert run.latency.min_ms > 0
    assert run.received_bytes_per_s > 0


def phases(run: Run) -> dict[str, str]:
    """Where each was read."""
    assert run.server is not None
    assert all(phase.mean_ms >= 0 for phase in run.server.phases)
    return {phase.name: phase.source for phase in run.server.phases}


@pytest.mark.parametrize("protocol", ["oip-json", "oip-binary", "predict", "oip-grpc"])
def test_every_protocol_of_a_server(server: RunningServer, protocol: str) -> None:
    url = f"grpc://{server.grpc_address}/double" if protocol == "oip-grpc" else f"{server.url}/v2/models/double"
    metrics = ("--metrics-url", f"http://127.0.0.1:{server.metrics_port}/metrics")
    document, run = measured(url, "--protocol", protocol, *metrics)
    (target,) = document.targets
    assert (target.protocol, target.model) == (protocol, "double")
    assert target.server is not None
    assert "guepard" in target.server
    assert target.same_machine
    # What the model takes is known, so each request may differ from all others.
    assert run.repeat_share == 0
    found = phases(run)
    assert {"queue", "compute", "decode", "encode"} <= found.keys()
    assert (found["queue"], found["decode"]) == ("server-timing", "server-timing")
    assert run.server is not None
    assert run.server.statistics["success_count"] == REQUESTS
    assert run.server.cpu_us_per_request is not None
    assert run.server.cpu_us_per_request > 0


def test_repeated_inputs_are_counted_as_a_cache_would_see_them(server: RunningServer) -> None:
    url = f"{server.url}/v2/models/double"
    document, zipf = measured(url, "--inputs", "zipf:1.1")
    weights = 1 / np.arange(1, document.payloads.count + 1) ** 1.1
    chances = weights / weights.sum()
    distinct = float((1 - (1 - chances) ** REQUESTS).sum())
    assert zipf.repeat_share == pytest.approx(1 - distinct / REQUESTS, abs=0.1)


def test_a_curl_line_and_a_self_test(server: RunningServer) -> None:
    body = json.dumps({"instances": [[1, 2, 3, 4]]})
    line = f"curl -s {server.url}/v1/models/double:predict -H 'Content-Type: application/json' -d '{body}'"
    with_self_test = [argument for argument in LOAD if argument != "--no-self-test"]
    result = run_bench("--curl", line, "--expect", r'"predictions": ?\[\[2', *with_self_test)
    assert_all_right(result)
    assert result.document is not None
    assert result.document.targets[0].protocol == "http"
    assert result.run.repeat_share == pytest.approx(1 - 1 / REQUESTS)
    reached = result.run.generator.self_test_rate
    assert reached is not None
    assert reached > 400


def test_an_operation_of_the_server_s_own_openapi_document(server: RunningServer) -> None:
    operation = "GET /v2/health/live"
    document, run = measured("--openapi", f"{server.url}/openapi.json", "--operation", operation)
    assert document.payloads.source.startswith(operation)
    assert run.succeeded > 0


def test_a_model_is_served_for_the_time_of_the_measurement(model: Path) -> None:
    document, run = measured(model)
    assert document.targets[0].protocol == "oip-json"
    assert document.targets[0].model == "double"
    assert {"queue", "compute"} <= phases(run).keys()


def test_a_model_in_the_process_itself(model: Path) -> None:
    result = run_bench(model, "--protocol", "in-process", *LOAD)
    assert result.document is not None, result.stderr
    run = result.run
    assert (run.errors, run.latency.count) == ((), REQUESTS)
    assert result.document.targets[0].protocol == "in-process"
    assert (run.server, run.generator.connections_opened) == (None, 0)


def test_a_rate_is_chosen_where_none_is_named(server: RunningServer) -> None:
    options = ("--duration", "0.5s", "--warmup", "0s", "--no-self-test", "--json", "--connections", "2")
    result = run_bench(f"{server.url}/v2/models/double", *options)
    assert result.document is not None
    assert "a closed loop of" in result.stderr
    (run,) = result.document.runs
    assert run.load.loop == "open"
    assert run.load.rate is not None
    assert run.load.rate > 20
