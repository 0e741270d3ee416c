"""Which operators run where."""

import logging
from typing import Any

import onnxruntime as ort
import pytest

from guepard.backends.onnxruntime_placement import PLACEMENT_KEY, Placement, read_placement, warn_of_cpu
from tests.services import onnx_models


def test_all_of_a_model_on_the_cpu() -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry(PLACEMENT_KEY, "1")
    session = ort.InferenceSession(onnx_models.mlp(), options, providers=["CPUExecutionProvider"])
    placement = read_placement(session)
    assert placement is not None
    assert placement.facts() == {"nodes": {"cpu": 4}, "on_cpu": {"Gemm": 2, "Relu": 1, "Softmax": 1}}


class Node:
    def __init__(self, operator: str) -> None:
        self.op_type = operator


class Part:
    def __init__(self, provider: str, *operators: str) -> None:
        self.ep_name = provider
        self._nodes = [Node(operator) for operator in operators]

    def get_nodes(self) -> list[Node]:
        return self._nodes


class Session:
    def get_provider_graph_assignment_info(self) -> list[Part]:
        return [
            Part("TensorrtExecutionProvider", "Conv", "Relu", "Conv"),
            Part("CUDAExecutionProvider", "NonZero"),
            Part("CPUExecutionProvider", "Shape"),
            Part("CPUExecutionProvider", "Gather"),
            Part("CPUExecutionProvider", "Shape"),
            Part("SomeOtherProvider", "Add"),
        ]


def test_parts_add_up() -> None:
    placement = read_placement(Session())
    assert placement == Placement(
        {"tensorrt": 3, "cuda": 1, "cpu": 3, "SomeOtherProvider": 1}, {"Shape": 2, "Gather": 1}
    )


def test_an_onnx_runtime_that_cannot_say() -> None:
    assert read_placement(object()) is None


def test_operators_on_the_cpu_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_cpu("m", Placement({"cuda": 9, "cpu": 3}, {"Shape": 2, "Gather": 1}))
        warn_of_cpu("m", Placement({"cuda": 9}, {}))
    assert caplog.messages == ["model m: 3 of its 12 operators run on the CPU: 2 x Shape, 1 x Gather"]


def test_only_so_many_are_named(caplog: pytest.LogCaptureFixture) -> None:
    operators: dict[str, Any] = {f"Op{number}": 1 for number in range(12)}
    warn_of_cpu("m", Placement({"cpu": 12}, operators))
    assert caplog.messages[0].endswith("1 x Op9, ...")
