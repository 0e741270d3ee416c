"""The output that a step computes with, in float32, or in float64 where it is FP64."""

from collections.abc import Sequence

import numpy as np

from guepard.core.errors import ModelError
from guepard.core.tensor import Array, TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.one_tensor import find_tensor

WHAT = "floating-point with at least one dimension"


class FloatOutput:
    """`place` is where it stands among the outputs. Raises: LoadError when there is none, or several."""

    def __init__(self, step: str, name: str | None, given: Sequence[TensorSpec]) -> None:
        self.place = find_tensor(step, "output", name, given, _is_float, WHAT)
        self.spec = given[self.place]
        self.name = self.spec.name
        self._is_brain_float = self.spec.datatype.name == "BF16"
        self.datatype = "FP64" if self.spec.datatype.name == "FP64" else "FP32"
        self._dtype = np.float64 if self.datatype == "FP64" else np.float32

    def values(self, outputs: Tensors) -> Array:
        """A copy that the caller may write to."""
        array = outputs[self.name]
        if self._is_brain_float:
            return (array.astype(np.uint32) << 16).view(np.float32)  # BF16 is the upper half of a float32
        return array.astype(self._dtype)

    def ranked(self, outputs: Tensors) -> Array:
        """As `values`, for steps that compare them. Raises: ModelError for NaN, which is neither more nor less."""
        values = self.values(outputs)
        if np.isnan(values).any():
            raise ModelError(f"output {self.name!r} of the model holds NaN, which cannot be ranked")
        return values


def _is_float(spec: TensorSpec) -> bool:
    return spec.datatype.kind == "float" and len(spec.dims) > 0
