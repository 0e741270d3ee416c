"""Declared request parameters, over HTTP in JSON and binary and over gRPC: checked before the model runs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.callers import one_input

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"
DECLARED = {
    "top_k": {"type": "integer", "min": 1, "max": 100},
    "temperature": {"type": "number", "min": 0},
    "mode": {"type": "string", "values": ["fast", "exact"]},
    "echo": {"type": "boolean"},
}
RIGHT: dict[str, Any] = {"top_k": 3, "temperature": 1, "mode": "exact", "echo": False}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"top_k": 0}, "parameters.top_k: expected an integer from 1 to 100, got 0"),
    ({"top_k": "3"}, "parameters.top_k: expected an integer from 1 to 100, got '3'"),
    ({"top_k": True}, "parameters.top_k: expected an integer from 1 to 100, got true"),
    ({"temperature": False}, "parameters.temperature: expected a number of 0 or more, got false"),
    ({"mode": "slow"}, "parameters.mode: expected one of 'fast', 'exact', got 'slow'"),
    ({"echo": 1}, "parameters.echo: expected true or false, got 1"),
    ({"top_p": 1}, "parameters.top_p: model 'echo' takes no such parameter; it takes echo, mode, temperature, top_k"),
    ({"top_k": 1, "seed": 7}, "parameters.seed: model 'echo' takes no such parameter"),
]


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    path = f"'{PYTHON_MODELS}:EchoParameters'"
    rows = "\n".join(f"      {name}: {rule}" for name, rule in DECLARED.items())
    (models / "guepard.yaml").write_text(
        f"server: {{trust: true}}\nmodels:\n  - {{name: open, path: {path}}}\n"
        f"  - name: echo\n    path: {path}\n    request_parameters:\n{rows}\n"
    )
    return serve("--config", models / "guepard.yaml")


@pytest.fixture(params=["http", "grpc"])
def client(server: RunningServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    library = {"http": tritonclient.http, "grpc": tritonclient.grpc}[request.param]
    address = {"http": server.address, "grpc": server.grpc_address}[request.param]
    with library.InferenceServerClient(address) as client:
        client.library = library
        yield client


def infer(client: Any, parameters: dict[str, Any], model: str = "echo") -> Any:
    tensor = client.library.InferInput("x", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 1), np.float32))
    return client.infer(model, [tensor], parameters=parameters)


def test_what_is_allowed_reaches_the_model(client: Any) -> None:
    answer = infer(client, RIGHT).as_numpy("parameters")
    assert json.loads(answer.item()) == RIGHT


@pytest.mark.parametrize(("parameters", "words"), WRONG)
def test_what_is_not_is_refused_on_every_front_end(client: Any, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(InferenceServerException) as caught:
        infer(client, parameters)
    assert words in caught.value.message()
    assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


def test_unset_anything_passes(client: Any) -> None:
    for parameters, _ in WRONG:
        infer(client, parameters, "open")


@pytest.mark.parametrize("value", ["1.0", "3.0", "1e2", "9" * 60, "9" * 6_000, "-0", "1e400", "[1]", "{}", "null"])
def test_numbers_that_are_no_integers_in_range(server: RunningServer, value: str) -> None:
    inputs = '[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]'
    body = f'{{"inputs":{inputs},"parameters":{{"top_k":{value}}}}}'
    answer = server.request("POST", "/v2/models/echo/infer", body)
    assert answer.status == 400
    assert "parameters" in answer.json["error"]
    assert len(answer.body) < 400


def test_the_server_s_own_parameters_are_no_custom_ones(server: RunningServer) -> None:
    parameters = {"timeout": 10_000_000, "priority": 1, "binary_data_output": False, "top_k": 1}
    assert server.infer("echo", one_input("FP32", [1], parameters=parameters)).status == 200


def test_those_of_sequences_are_custom_ones(server: RunningServer) -> None:
    answer = server.infer("echo", one_input("FP32", [1], parameters={"sequence_id": 7, "sequence_start": True}))
    assert answer.status == 400
    assert "parameters.sequence_id: model 'echo' takes no such parameter" in answer.json["error"]


def test_a_refused_request_is_not_executed(server: RunningServer) -> None:
    def executions() -> int:
        stats = server.request("GET", "/v2/models/echo/stats").json["model_stats"][0]
        return int(stats["execution_count"])

    before = executions()
    assert server.infer("echo", one_input("FP32", [1], parameters={"top_k": 0})).status == 400
    assert executions() == before


def test_the_configuration_route_shows_them(server: RunningServer) -> None:
    assert server.request("GET", "/v2/models/echo/config").json["guepard"]["request_parameters"] == DECLARED
    assert "request_parameters" not in server.request("GET", "/v2/models/open/config").json["guepard"]
