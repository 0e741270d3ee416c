"""OpenVINO behind a real server, beside ONNX Runtime: many callers at once, in a process, and started again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.callers import Call, call_together, one_input
from tests.services.heavy_models import WIDTH, matmul_stack
from tests.services.onnx_models import lookup, write_model

CONFIG = """
server: {{cache_dir: {folder}/cache}}
models:
  - {{name: here, path: {folder}/stack.onnx, engine: openvino, max_batch_size: 8}}
  - {{name: reference, path: {folder}/stack.onnx, engine: onnxruntime, max_batch_size: 8}}
  - name: apart
    path: {folder}/stack.onnx
    backend: openvino
    max_batch_size: 8
    instance_group: {{count: 1, execution: process}}
  - name: table
    path: {folder}/table.onnx
    engine: openvino
    openvino: {{num_streams: 1, properties: {{PERF_COUNT: true}}}}
  - name: wrong
    path: {folder}/table.onnx
    engine: openvino
    required: false
    openvino: {{properties: {{NUM_STREAMZ: 1}}}}
"""


@pytest.fixture(scope="module")
def folder(models: Path) -> Path:
    write_model(models / "stack.onnx", matmul_stack(2))
    write_model(models / "table.onnx", lookup())
    (models / "guepard.yaml").write_text(CONFIG.format(folder=models))
    return models


@pytest.fixture(scope="module")
def server(folder: Path, serve: Serve) -> RunningServer:
    return serve("--config", folder / "guepard.yaml")


def sample(seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(1, WIDTH)).astype(np.float32)


def call(model: str, x: NDArray[Any]) -> Call:
    return Call(model, one_input("FP32", x.ravel().tolist(), x.shape))


def engine(server: RunningServer, model: str) -> dict[str, Any]:
    told: dict[str, Any] = server.request("GET", f"/v2/models/{model}/config").json["guepard"]["engine"]
    return told


def test_many_callers_get_their_own_answers_and_those_of_onnx_runtime(server: RunningServer) -> None:
    samples = [sample(seed) for seed in range(16)]
    for model in ("here", "apart"):
        answers = call_together(server, [call(model, x) for x in samples for _ in range(3)])
        expected = call_together(server, [call("reference", x) for x in samples])
        for place, answer in enumerate(answers):
            assert answer.status == 200, answer
            np.testing.assert_allclose(answer.data, expected[place // 3].data, rtol=1e-3, atol=1e-4)


def test_clients_see_the_same_model_and_operators_what_executes_it(server: RunningServer) -> None:
    here, reference = (server.request("GET", f"/v2/models/{name}").json for name in ("here", "reference"))
    assert (here["inputs"], here["outputs"]) == (reference["inputs"], reference["outputs"])
    told = engine(server, "here")
    assert (told["name"], told["precision"]) == ("openvino", "f32")
    assert told["num_streams"] <= told["inference_num_threads"]
    assert engine(server, "table")["num_streams"] == 1


def test_an_index_beyond_the_table_is_told_to_the_caller(server: RunningServer) -> None:
    answer = server.infer("table", {"inputs": [{"name": "ids", "datatype": "INT64", "shape": [1], "data": [10]}]})
    assert answer.status == 400
    assert "10 is no index into a table of 10" in answer.json["error"]


def test_an_unknown_property_is_named_in_the_index(server: RunningServer) -> None:
    index = server.request("POST", "/v2/repository/index").json
    (wrong,) = [model for model in index if model["name"] == "wrong"]
    assert "openvino.properties: the CPU device has no property NUM_STREAMZ" in wrong["reason"]


def test_the_next_server_compiles_nothing(server: RunningServer, folder: Path, serve: Serve) -> None:
    before = call_together(server, [call("here", sample(99))])[0].data
    again = serve("--config", folder / "guepard.yaml")
    assert engine(again, "here")["from_cache"] is True
    assert call_together(again, [call("here", sample(99))])[0].data == before
