"""`argmax`: scores into the index of the highest, along the last dimension."""

from collections.abc import Sequence
from pathlib import Path

from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.float_output import FloatOutput
from guepard.hooks.one_tensor import replaced


class Argmax:
    """INT64 under the name of the scores. Of equals the first. NaN is a failure of the model."""

    def __init__(self, folder: Path, output: str | None = None) -> None:
        self._output = output

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        self._scores = scores = FloatOutput("argmax", self._output, given)
        return replaced(given, scores.place, TensorSpec(scores.name, "INT64", scores.spec.dims[:-1]))

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        return {**outputs, self._scores.name: self._scores.ranked(outputs).argmax(-1)}
