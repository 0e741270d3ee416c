"""`cast`: numbers of one datatype into those that the model takes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from guepard.core.errors import InputError, LoadError
from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.one_tensor import find_tensor, replaced


class Cast:
    """Values must be ones that the model's datatype has: 300 is no UINT8, 0.5 no integer, and 1e9 no FP16."""

    def __init__(self, folder: Path, datatype: str, input: str | None = None) -> None:  # noqa: A002 - the option's name
        self._datatype = datatype
        self._input = input

    def before(self, wanted: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        place = find_tensor("cast", "input", self._input, wanted, lambda spec: spec.plain, "numbers")
        spec = wanted[place]
        self._name, self._to = spec.name, spec.datatype
        try:
            mine = TensorSpec(spec.name, self._datatype, spec.dims, spec.optional)
        except ValueError as error:
            raise LoadError(f"cast.datatype: {error}") from None
        return replaced(wanted, place, mine)

    def run(self, tensors: Tensors) -> Tensors:
        array = tensors.get(self._name)
        if array is None:
            return tensors
        with np.errstate(invalid="ignore", over="ignore"):
            made = array.astype(self._to.dtype)
        if not np.can_cast(array.dtype, made.dtype, "safe"):
            same = np.isinf(made) <= np.isinf(array) if made.dtype.kind == "f" else made == array
            if not same.all():
                row = int(np.argmin(same.reshape(len(same), -1).all(1)))
                raise InputError(f"input {self._name!r}: row {row} holds values that {self._to.name} has not", row=row)
        return {**tensors, self._name: made}
