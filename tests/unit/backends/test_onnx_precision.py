"""In which precision weights are written, found in the file."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

from guepard.backends.onnx_precision import weights_precision
from guepard.core.engine_options import Precision
from guepard.core.errors import LoadError
from tests.services import onnx_models
from tests.services.onnx_models import build, tensor, write_model

HALF, WHOLE = np.ones((8, 8), np.float16), np.ones((2, 2), np.float32)
BRAIN = helper.make_tensor("b", onnx_models.ONNX_TYPES["BF16"], [8, 8], np.ones(64, np.float32).tolist())


def found(folder: Path, model: bytes) -> Precision:
    return weights_precision(write_model(folder / "m.onnx", model))


def matmul(weights: dict[str, np.ndarray]) -> bytes:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    return build(nodes, [tensor("x", "FP16", ["n", 8])], [tensor("y", "FP16", ["n", 8])], weights)


def test_most_numbers_decide(tmp_path: Path) -> None:
    assert found(tmp_path, onnx_models.mlp()) == "f32"
    assert found(tmp_path, matmul({"h": HALF, "w": WHOLE})) == "f16"
    assert found(tmp_path, matmul({"h": HALF, "w": np.ones((9, 9), np.float32)})) == "f32"


def test_integers_do_not_count(tmp_path: Path) -> None:
    assert found(tmp_path, matmul({"h": HALF, "i": np.ones((99, 99), np.int64)})) == "f16"


def test_a_model_without_weights(tmp_path: Path) -> None:
    assert found(tmp_path, onnx_models.identity("FP16")) == "f32"


def test_brain_floats_and_constants_of_nodes(tmp_path: Path) -> None:
    inputs, outputs = [tensor("x", "FP32", ["n", 4])], [tensor("y", "FP32", ["n", 4])]
    node = helper.make_node("Identity", ["x"], ["y"])
    assert found(tmp_path, build([node], inputs, outputs, initializers=[BRAIN])) == "bf16"
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(HALF, "c"))
    assert found(tmp_path, build([constant, node], inputs, outputs)) == "f16"


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\xff\xff\xff")
    with pytest.raises(LoadError, match=r"m\.onnx is not a valid ONNX model"):
        weights_precision(tmp_path / "m.onnx")
