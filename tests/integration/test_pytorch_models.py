"""Models of PyTorch over HTTP: each form, on a thread and in a process, trusted and not."""

from pathlib import Path
from typing import Any

import pytest

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services.torch_models import FACTORY, Named, save_exported, save_script

CONFIGURATION = """
models:
  - {name: exported, path: exported.pt2, trust: true}
  - name: script
    path: script.pt
    trust: true
    inputs: [{name: a, datatype: FP32, dims: [-1]}, {name: b, datatype: FP32, dims: [-1]}]
    instance_group: {execution: process, count: 1}
  - name: built
    path: net
    backend: pytorch
    trust: true
    pytorch: {factory: "net.py:build"}
    inputs: [{name: input, datatype: FP32, dims: [4]}]
  - {name: stranger, path: exported.pt2, required: false}
"""


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    save_exported(models / "exported.pt2")
    save_script(models / "script.pt", Named())
    (models / "net").mkdir()
    (models / "net/net.py").write_text(FACTORY)
    (models / "guepard.yaml").write_text(CONFIGURATION)
    return serve("--config", models / "guepard.yaml")


def body(**rows: list[list[float]]) -> dict[str, Any]:
    return {
        "inputs": [
            {"name": name, "shape": [len(data), len(data[0])], "datatype": "FP32", "data": data}
            for name, data in rows.items()
        ]
    }


def test_an_exported_program_answers(server: RunningServer) -> None:
    answer = server.infer("exported", body(x=[[1, 2, 3, 4], [5, 6, 7, 8]])).json
    assert answer["outputs"] == [
        {"name": "OUTPUT__0", "datatype": "FP32", "shape": [2, 3], "data": [2, 3, 4, 6, 7, 8]},
    ]
    config = server.request("GET", "/v2/models/exported/config").json
    assert (config["max_batch_size"], config["platform"]) == (64, "pytorch_libtorch")
    assert config["guepard"]["engine"]["name"] == "pytorch"


def test_torchscript_answers_from_a_process(server: RunningServer) -> None:
    outputs = server.infer("script", body(a=[[3, 4]], b=[[1, 1]])).json["outputs"]
    assert [(each["name"], each["data"]) for each in outputs] == [("sum", [4, 5]), ("difference", [2, 3])]


def test_shapes_that_the_caller_chose_are_the_callers_fault(server: RunningServer) -> None:
    answer = server.infer("script", body(a=[[3, 4]], b=[[1, 1, 1]]))
    assert answer.status == 400
    assert "cannot take inputs of these shapes" in answer.json["error"]


def test_a_factory_answers(server: RunningServer) -> None:
    assert server.infer("built", body(input=[[1, 2, 3, 4]])).json["outputs"][0]["shape"] == [1, 3]


def test_what_is_not_trusted_does_not_load_through_the_api(server: RunningServer) -> None:
    answer = server.request("POST", "/v2/repository/models/stranger/load", b'{"parameters": {"trust": true}}')
    assert answer.status >= 400
    assert server.infer("stranger", body(x=[[1, 2, 3, 4]])).status != 200
    assert "--trust" in server.log_text()
