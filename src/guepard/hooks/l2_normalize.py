"""`l2_normalize`: vectors to length 1, along the last dimension."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.float_output import FloatOutput
from guepard.hooks.one_tensor import replaced


class L2Normalize:
    """Lengths are summed up in float64, so that none overflows. A vector of zeros stays one; NaN spreads over its own.

    FP16 and BF16 are answered as FP32.
    """

    def __init__(self, folder: Path, output: str | None = None) -> None:
        self._output = output

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        self._vectors = vectors = FloatOutput("l2_normalize", self._output, given)
        return replaced(given, vectors.place, TensorSpec(vectors.name, vectors.datatype, vectors.spec.dims))

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        vectors = self._vectors.values(outputs)
        lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(-1, keepdims=True))
        lengths[lengths == 0] = 1
        return {**outputs, self._vectors.name: np.divide(vectors, lengths, out=vectors, casting="same_kind")}
