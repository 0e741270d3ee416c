"""Sequences of many lengths at once, over HTTP and gRPC: each answer is the one that it has alone."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.callers import Call, Reply, call_together
from tests.services.grpc_calls import add_input, call
from tests.services.raw_http import gauge

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"

WAITING = "dynamic_batching: {max_queue_delay: 20ms}"
MODELS = {
    "bare": (onnx_models.encoder(), WAITING),
    "alone": (onnx_models.encoder(), "padding: {inputs: {}}"),
    "maskless": (onnx_models.encoder(masked=False), WAITING),
    "declared": (
        onnx_models.encoder(("ids", "mask"), sequence=None),
        f"{WAITING}, padding: {{inputs: {{ids: 0, mask: 0}}, outputs: {{hidden: 0}}, buckets: [32, 256]}}",
    ),
    "budget": (onnx_models.encoder(), f"max_batch_size: 64, {WAITING}, padding: {{max_tokens: 400}}"),
    "said": (onnx_models.encoder(("ids", "mask"), metadata='{"inputs": {"ids": 0, "mask": 0}}'), WAITING),
}


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    entries = []
    for name, (model, options) in MODELS.items():
        onnx_models.write_model(models / f"{name}.onnx", model)
        entries.append(f"  - {{name: {name}, path: {name}.onnx, {options}}}")
    path = f"'{PYTHON_MODELS}:RunningMean'"
    entries.append(f"  - {{name: python, path: {path}, backend: python, trust: true, {WAITING}}}")
    (models / "guepard.yaml").write_text("\n".join(["models:", *entries]))
    return serve("--config", models / "guepard.yaml")


class Sequences(NamedTuple):
    """Token ids of one request, [rows, length], and the name of the model's two inputs."""

    ids: np.ndarray
    names: tuple[str, str]

    @property
    def tensors(self) -> list[tuple[str, np.ndarray]]:
        return [(self.names[0], self.ids), (self.names[1], np.ones_like(self.ids))]

    def json(self, model: str) -> Call:
        inputs = [
            {"name": name, "datatype": "INT64", "shape": list(array.shape), "data": array.ravel().tolist()}
            for name, array in self.tensors
        ]
        return Call(model, {"inputs": inputs})

    def binary(self, model: str) -> Call:
        inputs = [
            {
                "name": name,
                "datatype": "INT64",
                "shape": list(array.shape),
                "parameters": {"binary_data_size": array.nbytes},
            }
            for name, array in self.tensors
        ]
        head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
        body = head + b"".join(array.tobytes() for _, array in self.tensors)
        return Call(model, body, {"Inference-Header-Content-Length": str(len(head))})

    def message(self, model: str) -> bytes:
        request = service_pb2.ModelInferRequest(model_name=model)
        for name, array in self.tensors:
            add_input(request, name, "INT64", array.shape, array.tobytes())
        data: bytes = request.SerializeToString()
        return data


def sequences(count: int, names: tuple[str, str] = ("input_ids", "attention_mask"), most_rows: int = 3) -> list[Any]:
    """Short and long ones mixed, as texts are."""
    rng = random.Random(5)
    numbers = np.random.default_rng(5)
    lengths = [rng.choice([1, 2, 3, 7, 8, 20, 31, 32, 33, 100, 200]) for _ in range(count)]
    return [Sequences(numbers.integers(1, 100, (rng.randint(1, most_rows), length)), names) for length in lengths]


def expected_of(ids: np.ndarray) -> dict[str, np.ndarray]:
    """What `onnx_models.encoder` computes, in numpy."""
    table = np.random.default_rng(2).normal(size=(100, 8)).astype(np.float32)
    embedded = table[ids]
    mean = embedded.mean(axis=1, keepdims=True)
    return {"hidden": embedded + mean, "embedding": mean[:, 0]}


def outputs_of(reply: Reply) -> dict[str, np.ndarray]:
    """Of an answer in JSON or in binary."""
    assert reply.status == 200, reply.body
    size = reply.headers.get("inference-header-content-length")
    head = json.loads(reply.body[: int(size)] if size else reply.body)
    found, offset = {}, int(size or 0)
    for output in head["outputs"]:
        if size:
            end = offset + output["parameters"]["binary_data_size"]
            data = np.frombuffer(reply.body[offset:end], np.float32)
            offset = end
        else:
            data = np.array(output["data"], np.float32)
        found[output["name"]] = data.reshape(output["shape"])
    return found


def assert_as_alone(found: dict[str, np.ndarray], asked: Sequences) -> None:
    expected = expected_of(asked.ids)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4)


def tokens(server: RunningServer, model: str, kind: str) -> float:
    return gauge(server, f'guepard_batch_tokens_total{{kind="{kind}",model="{model}",version="1"}}')


NAMES = {"bare": ("input_ids", "attention_mask"), "budget": ("input_ids", "attention_mask")}


@pytest.mark.parametrize("model", ["bare", "declared", "budget", "said"])
def test_every_caller_gets_what_it_would_get_alone(server: RunningServer, model: str) -> None:
    """tensorflow/tensor2tensor#1489: short sequences came back as garbage when they met long ones."""
    asked = sequences(50, NAMES.get(model, ("ids", "mask")))
    calls = [each.binary(model) if number % 2 else each.json(model) for number, each in enumerate(asked)]
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel, ThreadPoolExecutor(17) as pool:
        pending = [pool.submit(call, channel, each.message(model)) for each in asked[:16]]
        replies = call_together(server, calls)
        for each, future in zip(asked, pending, strict=False):
            answer = future.result().infer
            found = {
                output.name: np.frombuffer(raw, np.float32).reshape(tuple(output.shape))
                for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
            }
            assert_as_alone(found, each)
    for reply, each in zip(replies, asked, strict=True):
        assert_as_alone(outputs_of(reply), each)
    assert tokens(server, model, "request") == sum(each.ids.size for each in (*asked, *asked[:16]))
    assert tokens(server, model, "padding") > 0


def executions_of(server: RunningServer, model: str) -> int:
    (document,) = server.request("GET", f"/v2/models/{model}/stats").json["model_stats"]
    return int(document["execution_count"])


def test_lengths_meet_where_the_model_is_padded_and_not_where_nobody_asked(server: RunningServer) -> None:
    asked = [Sequences(np.full((1, length), 7), ("input_ids", "attention_mask")) for length in range(40, 50)]
    before = {model: executions_of(server, model) for model in ("bare", "maskless", "alone")}
    for model in before:
        for reply, each in zip(call_together(server, [each.json(model) for each in asked]), asked, strict=True):
            assert_as_alone(outputs_of(reply), each)
    after = {model: executions_of(server, model) - count for model, count in before.items()}
    assert after["bare"] < len(asked)
    assert after["maskless"] == after["alone"] == len(asked)


def test_large_requests_are_split_and_joined_at_their_own_length(server: RunningServer) -> None:
    asked = [
        Sequences(np.random.default_rng(rows).integers(1, 100, (rows, 5 + rows)), NAMES["bare"]) for rows in (150, 3)
    ]
    for reply, each in zip(call_together(server, [each.binary("bare") for each in asked]), asked, strict=True):
        assert_as_alone(outputs_of(reply), each)


def test_a_python_model_is_told_the_lengths(server: RunningServer) -> None:
    """`python_models.RunningMean` has no mask: it asks for the length of each request."""
    rows = [[float(value) for value in range(1, length + 1)] for length in (2, 9, 4, 6)]
    calls = [
        Call("python", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, len(row)], "data": row}]})
        for row in rows
    ]
    for row, reply in zip(rows, call_together(server, calls), strict=True):
        found = outputs_of(reply)
        assert found["mean"].tolist() == [pytest.approx(sum(row) / len(row))]
        assert found["share"].shape == (1, len(row))
        np.testing.assert_allclose(found["share"][0], np.array(row) / sum(row), rtol=1e-5)


def test_inputs_of_one_request_that_differ_in_length_are_refused(server: RunningServer) -> None:
    inputs = [
        {"name": name, "datatype": "INT64", "shape": [1, size], "data": [1] * size}
        for name, size in (("input_ids", 3), ("attention_mask", 4))
    ]
    reply = server.request("POST", "/v2/models/bare/infer", json.dumps({"inputs": inputs}))
    assert reply.status == 400
    assert "input 'attention_mask' has length 4 and input 'input_ids' 3" in reply.json["error"]


def test_what_holds_is_shown(server: RunningServer) -> None:
    def shown(model: str) -> Any:
        return server.request("GET", f"/v2/models/{model}/config").json["guepard"].get("padding")

    assert shown("alone") is None
    assert shown("maskless") is None
    assert shown("bare")["outputs"] == {"hidden": 0}
    declared = shown("declared")
    assert (declared["inputs"], declared["outputs"], declared["buckets"]) == (
        {"ids": 0, "mask": 0},
        {"hidden": 0},
        [32, 256],
    )
    assert shown("budget")["max_tokens"] == 400
    assert shown("python")["inputs"] == {"x": 0.0}


def test_a_declaration_that_does_not_fit_keeps_the_model_out(serve: Serve, tmp_path: Path) -> None:
    onnx_models.write_model(tmp_path / "m.onnx", onnx_models.encoder())
    (tmp_path / "guepard.yaml").write_text("models: [{name: m, path: m.onnx, padding: {inputs: {input_idz: 0}}}]")
    server = serve("--config", tmp_path / "guepard.yaml", "--model-control-mode", "explicit")
    answer = server.request("POST", "/v2/repository/models/m/load")
    assert answer.status >= 400
    assert "padding.inputs.input_idz: the model has no such input" in answer.json["error"]
