"""The recipe of the smallest reference model: a 30 -> 32 -> 2 classifier with seeded weights.

It computes next to nothing, so that what is measured is the server.
"""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


def build(path: Path) -> None:
    """Write the model to `path`. Shapes: x FP32 [n, 30] -> y FP32 [n, 2], a softmax."""
    random = np.random.default_rng(0)
    weights = {
        "hidden.weight": random.normal(scale=30**-0.5, size=(30, 32)),
        "hidden.bias": random.normal(scale=0.1, size=32),
        "logits.weight": random.normal(scale=32**-0.5, size=(32, 2)),
        "logits.bias": random.normal(scale=0.1, size=2),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "hidden.weight", "hidden.bias"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["activated"]),
        helper.make_node("Gemm", ["activated", "logits.weight", "logits.bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 30])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
