"""`/ping` and `/invocations` as Amazon SageMaker calls them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from guepard.testing.running_server import Answer, RunningServer
from tests.conftest import Serve
from tests.services import onnx_models

TARGET = "X-Amzn-SageMaker-Target-Model"
BINARY = "application/vnd.sagemaker-triton.binary+json"

ROWS = {"instances": [[1.0], [2.0]]}
TENSORS = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 1], "data": [1, 2]}]}


@pytest.fixture(scope="module")
def one(serve: Serve, models: Path) -> RunningServer:
    return serve(f"double={onnx_models.write_model(models / 'double.onnx', onnx_models.double(1))}")


@pytest.fixture(scope="module")
def several(serve: Serve, models: Path) -> RunningServer:
    """Two models that serve and one that does not."""
    double = onnx_models.write_model(models / "double.onnx", onnx_models.double(1))
    (models / "broken.onnx").write_bytes(b"nothing")
    return serve(f"double={double}", f"again={double}", f"broken={models / 'broken.onnx'}")


def invoke(server: RunningServer, body: Any, **headers: str) -> Answer:
    return server.request("POST", "/invocations", body, headers)


def test_ping_is_empty_while_all_is_well(one: RunningServer) -> None:
    answer = one.request("GET", "/ping")
    assert (answer.status, answer.body) == (200, b"")


def test_ping_says_why_not(several: RunningServer) -> None:
    answer = several.request("GET", "/ping")
    assert (answer.status, answer.json["error"]) == (503, "not ready: broken")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (ROWS, {"predictions": [[2.0], [4.0]]}),
        ({"inputs": [[1.0], [2.0]]}, {"outputs": [[2.0], [4.0]]}),
        ({"inputs": {"x": [[1.0]]}}, {"outputs": [[2.0]]}),
        ({"instances": [{"x": 3}]}, {"predictions": [[6.0]]}),
    ],
)
def test_the_only_model_needs_no_name(one: RunningServer, body: Any, answer: Any) -> None:
    came = invoke(one, body)
    assert (came.status, came.json, came.headers["guepard-model-version"]) == (200, answer, "1")


def test_v2_is_answered_as_v2(one: RunningServer) -> None:
    document = invoke(one, TENSORS | {"id": "42"}).json
    assert (document["id"], document["outputs"][0]["data"]) == ("42", [2.0, 4.0])


def test_a_model_that_predict_cannot_spell_is_asked_in_v2(serve: Serve, models: Path) -> None:
    """Twice, since the second finds its head known."""
    name = 'a"b'
    node = helper.make_node("Identity", [name], ["y"])
    row = onnx_models.tensor(name, "FP32", ["n", 1])
    quoted = onnx_models.build([node], [row], [onnx_models.tensor("y", "FP32", ["n", 1])])
    server = serve(f"quoted={onnx_models.write_model(models / 'quoted.onnx', quoted)}")
    for _ in range(2):
        answer = invoke(server, {"inputs": [{"name": name, "datatype": "FP32", "shape": [1, 1], "data": [2]}]})
        assert (answer.status, answer.json["outputs"][0]["data"]) == (200, [2.0])
        refused = invoke(server, ROWS)
        assert (refused.status, refused.json["code"]) == (501, "unsupported")
        assert "use the V2 infer route" in refused.json["error"]


def test_v2_with_binary_tensors(one: RunningServer) -> None:
    x = np.array([[1], [2]], np.float32)
    tensor = {"name": "x", "datatype": "FP32", "shape": [2, 1], "parameters": {"binary_data_size": x.nbytes}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    for _ in range(2):
        answer = invoke(one, head + x.tobytes(), **{"Content-Type": f"{BINARY};json-header-size={len(head)}"})
        kind, _, size = answer.headers["content-type"].partition(";json-header-size=")
        assert (answer.status, kind) == (200, BINARY)
        assert "inference-header-content-length" not in answer.headers
        (output,) = json.loads(answer.body[: int(size)])["outputs"]
        assert output["parameters"] == {"binary_data_size": 8}
        assert np.frombuffer(answer.body[int(size) :], np.float32).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("kind", [BINARY, f"{BINARY}; json-header-size=x", f"{BINARY};json-header-size=-1"])
def test_binary_tensors_need_the_length_of_their_head(one: RunningServer, kind: str) -> None:
    answer = invoke(one, b"{}", **{"Content-Type": kind})
    assert (answer.status, "needs ;json-header-size=N" in answer.json["error"]) == (400, True)


@pytest.mark.parametrize("name", ["double", "double.tar.gz", "again.tar.gz"])
def test_of_several_models_the_header_names_one(several: RunningServer, name: str) -> None:
    assert invoke(several, ROWS, **{TARGET: name}).json == {"predictions": [[2.0], [4.0]]}
    assert invoke(several, TENSORS, **{TARGET: name}).json["model_name"] == name.removesuffix(".tar.gz")


def test_without_the_header_the_names_are_listed(several: RunningServer) -> None:
    answer = invoke(several, ROWS)
    assert answer.status == 400
    assert answer.json["error"] == f"{TARGET}: 3 models may be meant; name one of again, broken, double"


@pytest.mark.parametrize(
    ("name", "status"), [("nobody", 404), ("broken", 503), ("..", 400), ("/opt/ml/model.tar.gz", 400)]
)
def test_a_name_that_leads_nowhere(several: RunningServer, name: str, status: int) -> None:
    assert invoke(several, ROWS, **{TARGET: name}).status == status


def test_a_wrong_name_is_not_answered_by_the_only_model(one: RunningServer) -> None:
    assert invoke(one, ROWS, **{TARGET: "another"}).status == 404


@pytest.mark.parametrize(
    "body", ["", "{", "[]", {}, {"instances": [["x"]]}, {"inputs": [{"name": "x"}]}, {"inputs": []}]
)
def test_malformed_bodies(one: RunningServer, body: Any) -> None:
    answer = invoke(one, body)
    assert (answer.status, answer.json["code"]) == (400, "invalid_argument")
    assert invoke(one, ROWS).status == 200


def test_the_only_model_is_looked_for_anew_when_there_are_others(serve: Serve, models: Path) -> None:
    """The same head, which is remembered, before and after a second model came."""
    repository = models / "repository"
    for name in ("first", "second"):
        onnx_models.write_model(repository / name / "1", onnx_models.double(1))
    server = serve("--model-repository", repository, "--model-control-mode", "explicit", "--load-model", "first")
    assert invoke(server, ROWS).status == 200
    assert server.request("POST", "/v2/repository/models/second/load").status == 200
    answer = invoke(server, ROWS)
    assert (answer.status, "first, second" in answer.json["error"]) == (400, True)
