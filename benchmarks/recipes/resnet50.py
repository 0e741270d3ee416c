"""The recipe of the image reference model: ResNet-50 with seeded random weights, normalisation inside.

The weights mean nothing; the work is that of the real network. Batch normalisation is folded into the convolutions, as
every exporter does for inference. The last convolution of a block is scaled down, so that sixteen residual sums stay
finite.

Source: He et al. 2015, table 1, with the stride in the 3x3 convolution ("v1.5", as torchvision has it).
"""

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width of the 3x3 convolution and number of blocks; a block puts out four times its width."""


class GraphBuilder:
    """Nodes and weights of a network, appended layer by layer; a layer takes and returns the name of a value."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._random = np.random.default_rng(0)

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, value: Any) -> str:
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def random_weight(self, *shape: int, gain: float = 2.0) -> str:
        """A weight that keeps the variance of its input (He et al.'s initialisation when `gain` is 2)."""
        scale = (gain / np.prod(shape[1:])) ** 0.5
        return self.constant(self._random.normal(scale=scale, size=shape))

    def convolution(self, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, gain: float = 2.0) -> str:
        return self.node(
            "Conv",
            x,
            self.random_weight(outputs, inputs, kernel, kernel, gain=gain),
            self.constant(np.zeros(outputs)),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
        )

    def bottleneck(self, x: str, inputs: int, width: int, stride: int) -> str:
        outputs = 4 * width
        y = self.node("Relu", self.convolution(x, inputs, width, 1))
        y = self.node("Relu", self.convolution(y, width, width, 3, stride))
        y = self.convolution(y, width, outputs, 1, gain=0.1)
        shortcut = x if inputs == outputs else self.convolution(x, inputs, outputs, 1, stride, gain=1.0)
        return self.node("Relu", self.node("Add", y, shortcut))


def build(path: Path) -> None:
    """Write the model to `path`. Shapes: image UINT8 [n, 224, 224, 3] -> logits FP32 [n, 1000]."""
    net = GraphBuilder()
    x = net.node("Cast", net.node("Transpose", "image", perm=[0, 3, 1, 2]), to=TensorProto.FLOAT)
    x = net.node("Sub", net.node("Div", x, net.constant(127.5)), net.constant(1.0))
    x = net.node("Relu", net.convolution(x, 3, 64, 7, stride=2))
    x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for stage, (width, blocks) in enumerate(STAGES):
        for block in range(blocks):
            x = net.bottleneck(x, channels, width, stride=2 if stage and not block else 1)
            channels = 4 * width
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    weight, bias = net.random_weight(1000, channels, gain=1.0), net.constant(np.zeros(1000))
    net.node("Gemm", x, weight, bias, output="logits", transB=1)
    graph = helper.make_graph(
        net.nodes,
        "resnet50",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", 224, 224, 3])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 1000])],
        net.weights,
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
