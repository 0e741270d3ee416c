"""`engine: auto` with the engines that there are, on a model that is heavy on any machine."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

import guepard
from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.heavy_models import conv_stack
from tests.services.onnx_models import tensor, write_model
from tests.services.processes import children_of, is_running
from tests.services.raw_http import gauge
from tests.services.waiting import wait_until

CONFIG = """
server: {{model_control_mode: explicit, cache_dir: {folder}/cache}}
defaults: {{max_batch_size: 4, instance_group: {{count: 1}}}}
models:
  - {{name: heavy, path: {folder}/heavy.onnx}}
  - {{name: refused, path: {folder}/refused.onnx}}
  - {{name: apart, path: {folder}/heavy.onnx, instance_group: {{execution: process}}}}
"""


def with_determinants(model: bytes) -> bytes:
    """`model` with an operator at its end that OpenVINO lacks: y FP32 [n, 64]."""
    parsed = ModelProto.FromString(model)
    graph = parsed.graph
    graph.node[-1].output[0] = "features"
    shape = helper.make_tensor("shape", TensorProto.INT64, [4], [0, 64, 2, 2])
    graph.node.extend(
        [
            helper.make_node("GlobalAveragePool", ["features"], ["pooled"]),
            helper.make_node("Constant", [], ["shape"], value=shape),
            helper.make_node("Reshape", ["pooled", "shape"], ["squares"]),
            helper.make_node("Det", ["squares"], ["y"]),
        ]
    )
    del graph.output[:]
    graph.output.append(tensor("y", "FP32", ["n", 64]))
    return parsed.SerializeToString()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def folder(models: Path) -> Path:
    write_model(models / "heavy.onnx", conv_stack(2))
    write_model(models / "refused.onnx", with_determinants(conv_stack(2)))
    (models / "guepard.yaml").write_text(CONFIG.format(folder=models))
    return models


@pytest.fixture(scope="module")
def server(folder: Path, serve: Serve) -> RunningServer:
    return serve("--config", folder / "guepard.yaml")


def load(server: RunningServer, model: str) -> dict[str, Any]:
    """What is then said of its engine."""
    answer = server.request("POST", f"/v2/repository/models/{model}/load")
    assert answer.status == 200, answer
    told: dict[str, Any] = server.request("GET", f"/v2/models/{model}/config").json["guepard"]["engine"]
    return told


def sample() -> NDArray[np.float32]:
    return np.random.default_rng(7).normal(size=(1, 256, 14, 14)).astype(np.float32)


def answer_of(server: RunningServer, model: str) -> NDArray[Any]:
    x = sample()
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.reshape(-1).tolist()}]}
    answer = server.infer(model, body)
    assert answer.status == 200, answer
    return np.array(answer.json["outputs"][0]["data"])


def cosine(left: NDArray[Any], right: NDArray[Any]) -> float:
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


def test_the_engine_that_serves_is_the_one_that_was_measured(server: RunningServer, folder: Path) -> None:
    told = load(server, "heavy")
    assert [each["engine"] for each in told["candidates"]] == ["openvino"] * len(told["candidates"])
    assert told["cached"] is False
    assert told["decision_seconds"] < 10
    won = [each for each in told["candidates"] if "rejected" not in each]
    assert (told["name"] == "openvino") == bool(won)
    assert told["ratio"] > 1.1 if won else told["ratio"] == 1
    ratio = gauge(server, 'guepard_model_engine_ratio{model="heavy",version="1"}')
    assert ratio == pytest.approx(told["ratio"], abs=1e-3)
    labels = f'engine="{told["name"]}",model="heavy",precision="{told["precision"]}",version="1"'
    assert gauge(server, f"guepard_model_engine_info{{{labels}}}") == 1
    line = server.wait_for_record("model heavy: engine")
    assert "decided by measurement in" in str(line)
    expected = ort.InferenceSession(folder / "heavy.onnx").run(None, {"x": sample()})[0].reshape(-1)
    assert cosine(answer_of(server, "heavy"), expected) > 0.999


def test_it_is_known_the_next_time_and_in_a_program(server: RunningServer, folder: Path) -> None:
    first = load(server, "heavy")
    again = load(server, "heavy")
    assert again["cached"] is True
    assert again["name"] == first["name"]
    options: dict[str, Any] = {"max_batch_size": 4, "instance_group": {"count": 1}}
    with guepard.load(folder / "heavy.onnx", cache_dir=folder / "cache", **options) as model:
        found = np.asarray(model.infer({"x": sample()})["y"]).reshape(-1)
    assert cosine(found, answer_of(server, "heavy")) > 0.999


def test_a_model_in_a_process_has_the_engine_too(server: RunningServer) -> None:
    assert load(server, "apart")["cached"] is True
    assert cosine(answer_of(server, "apart"), answer_of(server, "heavy")) > 0.998


def test_what_one_engine_refuses_the_other_serves(server: RunningServer) -> None:
    told = load(server, "refused")
    assert told["name"] == "onnxruntime"
    assert all(each["rejected"] for each in told["candidates"])
    assert "Det" in str(server.wait_for_record("model refused: on trial: "))
    assert answer_of(server, "refused").shape == (64,)


def test_a_server_that_ends_during_a_trial_answers_meanwhile_and_leaves_no_process(folder: Path, serve: Serve) -> None:
    server = serve("--config", folder / "guepard.yaml", "--cache-dir", "none")
    loading = threading.Thread(target=server.request, args=("POST", "/v2/repository/models/heavy/load"))
    loading.start()
    try:
        wait_until(lambda: bool(children_of(server.process.pid)))
        children = children_of(server.process.pid)
        assert server.request("GET", "/v2/health/live").status == 200
    finally:
        assert server.stop() == 0
        loading.join()
    wait_until(lambda: not any(map(is_running, children)))
