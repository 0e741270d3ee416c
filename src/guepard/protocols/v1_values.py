"""The values of one input, as nested lists, into its tensor: the shape is what the nesting says."""

from typing import Any, NoReturn

import numpy as np

from guepard.core.errors import InputError
from guepard.core.tensor import Array, Tensor, TensorSpec
from guepard.protocols import brain_float
from guepard.protocols.oip_json import check_nesting, refuse_overflow
from guepard.protocols.v1_messages import are_ones, row_dims

_array = np.array


class ValueReader:
    """Makes tensors of the input `spec` out of values whose datatype and depth a decoder has checked."""

    __slots__ = ("_dims", "_dtype", "_is_bytes", "_loose", "_rank", "spec")

    def __init__(self, spec: TensorSpec, batched: bool) -> None:
        self.spec = spec
        self._dims = (-1, *spec.dims) if batched else spec.dims
        self._rank = len(self._dims)
        self._is_bytes = spec.datatype.kind == "bytes"
        self._dtype = spec.datatype.dtype if spec.plain or self._is_bytes else np.dtype(np.float32)
        self._loose = are_ones(row_dims(spec, batched))  # a row may be the element itself

    def tensor(self, values: Any, place: str, *, named: bool = False) -> Tensor:
        """The tensor that holds `values`, which came at `place`; `named`: each in an object of its own there.

        Raises: InputError that names the place.
        """
        spec = self.spec
        try:
            array: Array | None = _array(values, self._dtype)
        except (ValueError, OverflowError, TypeError):
            array = None
        if array is None or array.ndim != self._rank:
            array = self._reshaped(array, values)
            if array is None:
                self._refuse(values, place, named)
        if self._is_bytes:
            array = _encoded(array)
        elif not spec.plain:
            array = brain_float.from_float32(array)
        return Tensor(spec.name, spec.datatype.name, array)

    def _reshaped(self, array: Array | None, values: Any) -> Array | None:
        """What has fewer dimensions than the input for a good reason: brackets left out, or nothing inside them."""
        if array is None or array.ndim > self._rank:
            return None
        if array.size == 0:
            rest = self._dims[array.ndim :]
            return None if -1 in rest else np.empty((*array.shape, *rest), self._dtype)
        if self._loose and array.ndim == 1 and not any(isinstance(value, list) for value in values):
            return array.reshape(len(values), *self._dims[1:])
        return None

    def _refuse(self, values: Any, place: str, named: bool) -> NoReturn:
        tail = f".{self.spec.name}" if named else ""
        if self._loose:
            for index, value in enumerate(values):
                if isinstance(value, list) != isinstance(values[0], list):
                    raise InputError(
                        f"{place}[{index}]{tail}: some rows are in brackets and some are not; write all alike"
                    )
        shape = _outline(values)
        if named:
            for index, value in enumerate(values):
                if len(shape) > 1:
                    check_nesting(f"{place}[{index}]{tail}", value, shape[1:], "as in the first instance")
                if self.spec.datatype.name == "UINT64":
                    refuse_overflow(f"{place}[{index}]{tail}", "UINT64", value)
        else:
            if shape:
                check_nesting(place, values, shape, "as in the first")
            if self.spec.datatype.name == "UINT64":
                refuse_overflow(place, "UINT64", values)
        raise InputError(
            f"{place}{tail}: empty arrays do not tell the shape of input {self.spec.name!r}, "
            f"which is {list(self._dims)}; use the V2 infer route, which takes a shape"
        )


def _outline(values: Any) -> list[int]:
    """The shape of `values` as far as the first of each list shows it."""
    shape = []
    while isinstance(values, list):
        shape.append(len(values))
        if not values:
            break
        values = values[0]
    return shape


def _encoded(array: Array) -> Array:
    """Texts and Base64 objects as the bytes that they stand for."""
    flat = [element.encode() if isinstance(element, str) else element.b64 for element in array.ravel().tolist()]
    encoded = np.empty(len(flat), object)
    encoded[:] = flat
    return encoded.reshape(array.shape)
