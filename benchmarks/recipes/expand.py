"""The recipe of a model whose answer is large: one number, repeated ten million times.

It computes next to nothing; its answer in JSON is about 110 MB.
"""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

WIDTH = 10_000_000


def build(path: Path) -> None:
    """Write the model to `path`. Shapes: x FP32 [1, 1] -> y FP32 [1, WIDTH]."""
    shape = numpy_helper.from_array(np.array([1, WIDTH]), "shape")
    graph = helper.make_graph(
        [helper.make_node("Expand", ["x", "shape"], ["y"])],
        "expand",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, WIDTH])],
        [shape],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
