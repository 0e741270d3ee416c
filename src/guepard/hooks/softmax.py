"""`softmax`: scores into probabilities, along the last dimension."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.one_tensor import find_tensor, replaced


class Softmax:
    """Sums in float32, or in the datatype of the output where that is FP64."""

    def __init__(self, folder: Path, output: str | None = None) -> None:
        self._output = output

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        place = find_tensor(
            "softmax", "output", self._output, given, lambda spec: spec.datatype.kind == "float", "floating-point"
        )
        spec = given[place]
        self._name = spec.name
        datatype = "FP64" if spec.datatype.name == "FP64" else "FP32"
        return replaced(given, place, TensorSpec(spec.name, datatype, spec.dims))

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        scores = outputs[self._name]
        scores = scores.astype(np.float64 if scores.dtype == np.float64 else np.float32)
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        return {**outputs, self._name: scores}
