"""ONNX models with weights that are worth a thought, of the kinds whose kernels rearrange them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper, save_model

from tests.services.onnx_models import build, tensor

WIDTH = 1_024


def matmul_stack(layers: int = 2, width: int = WIDTH, seed: int = 0) -> bytes:
    """x FP32 [n, width] -> y, through so many dense layers of 4 · width² bytes."""
    random = np.random.default_rng(seed)
    weights: dict[str, NDArray[Any]] = {
        f"w{i}": random.normal(scale=width**-0.5, size=(width, width)).astype(np.float32) for i in range(layers)
    }
    return _layered(layers, weights, ["n", width], _dense)


def conv_stack(layers: int = 3, channels: int = 256) -> bytes:
    """x FP32 [n, channels, 14, 14] -> y, through 3x3 convolutions of 36 · channels² bytes."""
    random = np.random.default_rng(0)
    weights: dict[str, NDArray[Any]] = {
        f"w{i}": random.normal(scale=0.02, size=(channels, channels, 3, 3)).astype(np.float32) for i in range(layers)
    }
    return _layered(layers, weights, ["n", channels, 14, 14], _convolution)


def dynamic_int8_stack(layers: int = 6) -> bytes:
    """As `matmul_stack`, with INT8 weights and activations that are quantised as they come."""
    weights = _int8_weights(layers) | {"zero": np.int8(0), "scale": np.float32(0.0003)}
    return _layered(layers, weights, ["n", WIDTH], _dynamic_int8)


def static_qdq_stack(layers: int = 6) -> bytes:
    """As `matmul_stack`, quantised with fixed scales, as pairs of QuantizeLinear and DequantizeLinear."""
    scales = {"zero": np.int8(0), "scale": np.float32(0.02), "weight_scale": np.float32(0.001)}
    return _layered(layers, _int8_weights(layers) | scales, ["n", WIDTH], _static_qdq)


def sparse_weights() -> bytes:
    """y = x · w with a sparse w, which ONNX Runtime loads and does not save, and a dense one."""
    values = numpy_helper.from_array(np.array([1.0, 2.0], np.float32), "s")
    indices = numpy_helper.from_array(np.array([3, 900], np.int64), "i")
    dense = np.ones((WIDTH, WIDTH * 2), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "s"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    shapes = [tensor("x", "FP32", ["n", WIDTH])], [tensor("y", "FP32", ["n", 2 * WIDTH])]
    graph = helper.make_graph(nodes, "test", *shapes, [numpy_helper.from_array(dense, "w")])
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [WIDTH, WIDTH]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    serialised: bytes = model.SerializeToString()
    return serialised


def _layered(
    layers: int, weights: dict[str, Any], dims: list[int | str | None], layer: Callable[[int, str], list[Any]]
) -> bytes:
    """Layer i makes `h{i}` of its input; a Tanh keeps values small."""
    nodes = []
    value = "x"
    for i in range(layers):
        nodes += layer(i, value)
        value = "y" if i == layers - 1 else f"a{i}"
        nodes.append(helper.make_node("Tanh", [f"h{i}"], [value]))
    return build(nodes, [tensor("x", "FP32", dims)], [tensor("y", "FP32", dims)], weights)


def _dense(i: int, value: str) -> list[Any]:
    return [helper.make_node("MatMul", [value, f"w{i}"], [f"h{i}"])]


def _convolution(i: int, value: str) -> list[Any]:
    return [helper.make_node("Conv", [value, f"w{i}"], [f"h{i}"], pads=[1, 1, 1, 1])]


def _dynamic_int8(i: int, value: str) -> list[Any]:
    return [
        helper.make_node("DynamicQuantizeLinear", [value], [f"q{i}", f"s{i}", f"z{i}"]),
        helper.make_node("MatMulInteger", [f"q{i}", f"w{i}", f"z{i}", "zero"], [f"m{i}"]),
        helper.make_node("Cast", [f"m{i}"], [f"c{i}"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"s{i}", "scale"], [f"t{i}"]),
        helper.make_node("Mul", [f"c{i}", f"t{i}"], [f"h{i}"]),
    ]


def _static_qdq(i: int, value: str) -> list[Any]:
    return [
        helper.make_node("QuantizeLinear", [value, "scale", "zero"], [f"q{i}"]),
        helper.make_node("DequantizeLinear", [f"q{i}", "scale", "zero"], [f"d{i}"]),
        helper.make_node("DequantizeLinear", [f"w{i}", "weight_scale", "zero"], [f"v{i}"]),
        helper.make_node("MatMul", [f"d{i}", f"v{i}"], [f"m{i}"]),
        helper.make_node("QuantizeLinear", [f"m{i}", "scale", "zero"], [f"r{i}"]),
        helper.make_node("DequantizeLinear", [f"r{i}", "scale", "zero"], [f"h{i}"]),
    ]


def _int8_weights(layers: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {f"w{i}": random.integers(-100, 100, size=(WIDTH, WIDTH)).astype(np.int8) for i in range(layers)}


def many_words() -> bytes:
    """y STRING [n] = the word that index INT64 [n] names, of so many that they weigh 5 MiB."""
    words = numpy_helper.from_array(np.array([f"{i:050}" for i in range(110_000)], object), "words")
    shapes = [tensor("x", "INT64", ["n"])], [tensor("y", "BYTES", ["n"])]
    return build([helper.make_node("Gather", ["words", "x"], ["y"])], *shapes, initializers=[words])


def write_with_external_data(folder: Path, model: bytes) -> list[Path]:
    """Write `model` into `folder` with its weights in a file of their own; returns both, the model first."""
    parsed = ModelProto.FromString(model)
    save_model(parsed, folder / "model.onnx", save_as_external_data=True, location="weights.data", size_threshold=0)
    return [folder / "model.onnx", folder / "weights.data"]
