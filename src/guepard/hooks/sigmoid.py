"""`sigmoid`: each score into a probability of its own."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.float_output import FloatOutput
from guepard.hooks.one_tensor import replaced


class Sigmoid:
    """Computed in float32 for FP16 and BF16 too, which it answers as FP32. NaN stays NaN."""

    def __init__(self, folder: Path, output: str | None = None) -> None:
        self._output = output

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        self._scores = scores = FloatOutput("sigmoid", self._output, given)
        return replaced(given, scores.place, TensorSpec(scores.name, scores.datatype, scores.spec.dims))

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        scores = self._scores.values(outputs)
        with np.errstate(over="ignore"):  # of a very low score: 1 / infinity is the 0 that is meant
            np.exp(np.negative(scores, out=scores), out=scores)
        scores += 1
        return {**outputs, self._scores.name: np.reciprocal(scores, out=scores)}
