"""The recipe of a model that is mostly weights: 27 dense layers of 1024 x 1024, 113 MB, seeded."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

LAYERS, WIDTH = 27, 1_024


def build(path: Path) -> None:
    """Write the model to `path`. Shapes: x FP32 [n, 1024] -> y FP32 [n, 1024]."""
    random = np.random.default_rng(0)
    weights, nodes, value = [], [], "x"
    for layer in range(LAYERS):
        matrix = random.normal(scale=WIDTH**-0.5, size=(WIDTH, WIDTH)).astype(np.float32)
        weights.append(numpy_helper.from_array(matrix, f"weight{layer}"))
        nodes.append(helper.make_node("MatMul", [value, f"weight{layer}"], [f"dense{layer}"]))
        value = "y" if layer == LAYERS - 1 else f"active{layer}"
        nodes.append(helper.make_node("Tanh", [f"dense{layer}"], [value]))
    graph = helper.make_graph(
        nodes,
        "dense_stack",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])],
        weights,
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
