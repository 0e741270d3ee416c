"""What `predict` returned, checked against what the model declared.

Nothing is cast silently. An array must have the declared dtype or one that numpy widens without loss; a plain Python
list has no dtype of its own and takes the declared one, as long as every number fits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from guepard.core.datatypes import Datatype
from guepard.core.errors import ModelError
from guepard.core.tensor import Array, TensorSpec


class ResultReader:
    """Turns {name: value} into arrays in the order of the declared outputs."""

    __slots__ = ("_batched", "_model", "_names", "_outputs")

    def __init__(self, model: str, outputs: Sequence[TensorSpec], *, batched: bool) -> None:
        self._model = model
        self._outputs = outputs
        self._names = {spec.name for spec in outputs}
        self._batched = batched

    def read(self, result: Any, rows: int) -> list[Array]:
        """The outputs of one answer.

        Shapes: [rows, *dims], or dims for a model without batches; C-contiguous.
        Raises: ModelError naming the output, what was declared and what came.
        """
        if not isinstance(result, dict):
            raise self._error(f"predict must return a dict of outputs by name, it returned {type(result).__name__}")
        if result.keys() != self._names:
            self._refuse_names(set(result))
        return [self._output(spec, result[spec.name], rows) for spec in self._outputs]

    def _output(self, spec: TensorSpec, value: Any, rows: int) -> Array:
        try:
            array = _array(spec.datatype, value)
        except _Mismatch as mismatch:
            raise self._error(f"output {spec.name!r} is declared {spec.datatype.name}, but {mismatch}") from None
        expected = (rows, *spec.dims) if self._batched else spec.dims
        if array.shape != expected and not _fits(array.shape, expected):
            raise self._error(f"output {spec.name!r} must have shape {list(expected)}, it has {list(array.shape)}")
        return array

    def _refuse_names(self, names: set[Any]) -> None:
        missing = sorted(self._names - names)
        unknown = sorted(str(name) for name in names - self._names)
        raise self._error(
            "predict must return exactly the declared outputs;"
            + (f" missing: {', '.join(missing)};" if missing else "")
            + (f" not declared: {', '.join(unknown)};" if unknown else "")
            + f" declared: {', '.join(spec.name for spec in self._outputs)}"
        )

    def _error(self, text: str) -> ModelError:
        return ModelError(f"model {self._model!r}: {text}")


class _Mismatch(Exception):
    """What came instead of the declared datatype."""


def _fits(shape: Sequence[int], expected: Sequence[int]) -> bool:
    return len(shape) == len(expected) and all(want in (-1, got) for got, want in zip(shape, expected, strict=True))


def _array(datatype: Datatype, value: Any) -> Array:
    if datatype.kind == "bytes":
        return _byte_strings(value)
    is_plain = isinstance(value, list | tuple | bool | int | float)
    try:
        array = np.asarray(value)
        if is_plain and datatype.kind == "int" and array.dtype.kind in "fO":
            array = _integers(array, value)
    except Exception:  # of whatever library the value comes from
        raise _Mismatch(f"predict returned a {type(value).__name__} that is not a regular array of numbers") from None
    if array.dtype != datatype.dtype:
        array = _from_plain(datatype, array) if is_plain else _widened(datatype, array)
    return _own(array, value)


def _own(array: Array, value: Any) -> Array:
    """`array` in memory that nobody else has: a model may return the same array, or a part of it, again and again."""
    is_ours = array is not value and array.base is None and array.flags.c_contiguous
    return array if is_ours else array.copy()


def _widened(datatype: Datatype, array: Array) -> Array:
    # A BF16 tensor is uint16 bit patterns: a number of another type would be taken for bits.
    if datatype.name == "BF16" or not np.can_cast(array.dtype, datatype.dtype, "safe"):
        raise _Mismatch(f"predict returned {array.dtype}; return {_advice(datatype)}")
    return array.astype(datatype.dtype)


def _integers(array: Array, value: Any) -> Array:
    """`value` as uint64 if it holds integers only: numpy takes [0, 2**64 - 1] for floats. Otherwise `array`."""
    elements = np.asarray(value, object)
    if array.size == 0 or not all(isinstance(element, int) and 0 <= element < 2**64 for element in elements.flat):
        return array
    return elements.astype(np.uint64)


def _from_plain(datatype: Datatype, array: Array) -> Array:
    """Numbers of a Python list, which numpy made int64, float64 or bool for want of better knowledge."""
    kind = "int" if array.dtype.kind in "iu" else {"b": "bool", "f": "float"}.get(array.dtype.kind)
    if array.size == 0:
        kind = datatype.kind
    if datatype.name == "BF16" or kind is None or (kind, datatype.kind) not in _PLAIN_CASTS:
        raise _Mismatch(f"predict returned a list of {array.dtype} values; return {_advice(datatype)}")
    with np.errstate(over="ignore"):
        cast = array.astype(datatype.dtype)
    if datatype.kind == "int" and not np.array_equal(cast, array):
        raise _Mismatch("predict returned a list with a number outside of its range")
    if datatype.kind == "float" and not np.array_equal(np.isfinite(cast), np.isfinite(array)):
        raise _Mismatch("predict returned a list with a number too large for it")
    return cast


_PLAIN_CASTS = {
    ("bool", "bool"),
    ("bool", "int"),
    ("bool", "float"),
    ("int", "int"),
    ("int", "float"),
    ("float", "float"),
}


def _advice(datatype: Datatype) -> str:
    if datatype.name == "BF16":
        return "the bit patterns as a uint16 array"
    return f"{datatype.dtype.name}, with .astype(np.{datatype.dtype.name}) for instance"


def _byte_strings(value: Any) -> Array:
    try:
        array = np.asarray(value, object)
    except Exception:  # of whatever library the value comes from
        raise _Mismatch(f"predict returned a {type(value).__name__} that is not a regular array of bytes") from None
    elements = array.ravel().tolist()
    if all(type(element) is bytes for element in elements):
        return _own(array, value)
    encoded = np.empty(len(elements), object)
    encoded[:] = [_encoded(element) for element in elements]
    return encoded.reshape(array.shape)


def _encoded(element: Any) -> bytes:
    if isinstance(element, bytes):
        return bytes(element)
    if not isinstance(element, str):
        raise _Mismatch(f"predict returned an element of type {type(element).__name__}; return bytes or str")
    try:
        return element.encode()
    except UnicodeEncodeError:
        raise _Mismatch("predict returned a str with lone surrogates, which has no UTF-8 form; return bytes") from None
