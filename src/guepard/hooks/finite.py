"""`finite`: no answers for inputs that hold NaN or infinity, which a model would make something of."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from guepard.core.errors import InputError
from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors


class Finite:
    """Behind the model, where a request that holds such a number can be told from its neighbours in the batch."""

    def __init__(self, folder: Path, nan: bool = False, infinity: bool = False) -> None:
        self._takes_nan, self._takes_infinity = nan, infinity

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        self._names = [spec.name for spec in inputs if spec.datatype.dtype.kind == "f"]
        return tuple(given)

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        for name in self._names:
            array = inputs.get(name)
            if array is not None and not np.isfinite(array).all():
                self._look_into(name, array.reshape(len(array), -1))
        return outputs

    def _look_into(self, name: str, rows: np.ndarray) -> None:
        for refused, what, found in (
            (not self._takes_nan, "NaN", np.isnan(rows)),
            (not self._takes_infinity, "infinity", np.isinf(rows)),
        ):
            if refused and found.any():
                row = int(found.any(1).argmax())
                raise InputError(f"input {name!r} holds {what}, which the model does not take", row=row)
