"""`softmax`: scores into probabilities, along the last dimension."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.float_output import FloatOutput
from guepard.hooks.one_tensor import replaced


class Softmax:
    """Computed in float32 for FP16 and BF16 too, which it answers as FP32. A row that holds NaN becomes NaN."""

    def __init__(self, folder: Path, output: str | None = None) -> None:
        self._output = output

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        self._scores = scores = FloatOutput("softmax", self._output, given)
        return replaced(given, scores.place, TensorSpec(scores.name, scores.datatype, scores.spec.dims))

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        scores = self._scores.values(outputs)
        if scores.size:
            with np.errstate(invalid="ignore"):  # infinity less infinity is NaN, which is to be seen
                scores -= scores.max(-1, keepdims=True)
                np.exp(scores, out=scores)
                scores /= scores.sum(-1, keepdims=True)
        return {**outputs, self._scores.name: scores}
