"""Values as a program has them, as a model's inputs: numpy arrays, lists, numbers, bytes and text.

The declared datatype decides, and the ranges are those of the wire: no number wraps, becomes infinite or loses a
fraction. Numbers for floating-point inputs are rounded to nearest, as JSON's are.
"""

from typing import Any

import numpy as np

from guepard.core.datatypes import Datatype
from guepard.core.errors import InputError
from guepard.core.tensor import Array, Tensor, TensorSpec
from guepard.protocols import brain_float

_BOOLS = {bool, np.bool_}


def to_tensor(spec: TensorSpec, value: Any) -> Tensor:
    """`value` as the input that `spec` declares: a view that cannot be written through, or a converted copy.

    Raises: InputError that names the input, what came and what was expected. Shapes are not checked here.
    """
    datatype = spec.datatype
    if type(value) is np.ndarray and value.dtype is datatype.dtype and spec.plain and value.flags.c_contiguous:
        array = value.view()
    else:
        array = _converted(spec, value)
        if array is value or array.base is not None:
            array = array.view()
    # Models in Python may write on what they own, and must not take the program's array for theirs.
    array.flags.writeable = False
    return Tensor(spec.name, datatype.name, array)


def to_own_array(spec: TensorSpec, array: Array) -> Array:
    """An output as the program's own: writable memory that it shares with nobody. BF16 become FP32, exactly."""
    if spec.datatype.name == "BF16":
        return brain_float.to_float32(array)
    flags = array.flags
    return array if flags.owndata and flags.writeable else array.copy()


def _converted(spec: TensorSpec, value: Any) -> Array:
    if np.ma.is_masked(value):
        raise InputError(f"input {spec.name!r}: a masked array, and its mask would be lost; fill it first")
    try:
        array = np.asarray(value, object if spec.datatype.kind == "bytes" else None)
    except Exception:  # of whatever library the value comes from
        raise InputError(
            f"input {spec.name!r}: expected a regular array or nested lists of {spec.datatype.name}, "
            f"got a {type(value).__name__} that is neither"
        ) from None
    if spec.datatype.kind == "bytes":
        return _byte_strings(spec, array)
    is_typed = hasattr(value, "dtype")
    if is_typed and array.dtype == spec.datatype.dtype:
        return np.asarray(array, spec.datatype.dtype, order="C")  # of BF16: bit patterns
    if not is_typed:
        array = _plain_numbers(spec, array, value)
    return np.asarray(_numbers(spec, array, is_typed), order="C")


def _plain_numbers(spec: TensorSpec, array: Array, value: Any) -> Array:
    """Numbers of lists, of which numpy may have made something else: True a 1, a huge integer a float."""
    if array.size == 0:
        return array.astype(spec.datatype.dtype)
    elements = np.asarray(value, object)
    if spec.datatype.kind != "bool" and array.dtype.kind in "iufO":
        types = set(map(type, elements.ravel().tolist()))
        if types & _BOOLS:
            raise _wrong(spec, elements, lambda element: type(element) in _BOOLS)
        if spec.datatype.kind == "int" and array.dtype.kind in "fO":
            return elements
    return array


def _numbers(spec: TensorSpec, array: Array, is_typed: bool) -> Array:
    datatype, kind = spec.datatype, array.dtype.kind
    if datatype.kind == "bool":
        if kind == "b":
            return array
        if kind not in "iu":
            raise _unsuited(spec, array)
        _refuse_where(spec, array, (array != 0) & (array != 1))
        return array.astype(bool)
    if datatype.kind == "int":
        if kind == "O":
            array = _integer_objects(spec, array)
        elif kind not in "iu":
            raise _unsuited(spec, array)
        limits = np.iinfo(datatype.dtype)
        _refuse_where(spec, array, (array < limits.min) | (array > limits.max))
        return array.astype(datatype.dtype)
    return _floats(spec, array, is_typed)


def _integer_objects(spec: TensorSpec, array: Array) -> Array:
    """An object array that holds nothing but integers, which may be of any size."""
    for element in array.ravel().tolist():
        if not isinstance(element, int | np.integer) or isinstance(element, bool):
            raise _wrong(spec, array, lambda each: not isinstance(each, int | np.integer) or isinstance(each, bool))
    return array


def _floats(spec: TensorSpec, array: Array, is_typed: bool) -> Array:
    datatype = spec.datatype
    if datatype.name == "BF16" and array.dtype.name == "bfloat16":
        return array.view(np.uint16)
    if array.dtype.name != "bfloat16" and array.dtype.kind not in "iufO":
        raise _unsuited(spec, array)
    if datatype.name == "BF16" and is_typed and array.dtype.kind in "iu":
        raise InputError(
            f"input {spec.name!r}: an array of {array.dtype} for BF16; pass numbers as float32 or bfloat16, "
            "bit patterns as uint16"
        )
    if array.dtype.kind == "O" and any(map(_is_no_number, array.ravel().tolist())):
        raise _wrong(spec, array, _is_no_number)
    with np.errstate(over="ignore"):
        wide = array.astype(np.float64)
        narrow = wide.astype(np.float32 if datatype.name == "BF16" else datatype.dtype)
    was_finite = np.isfinite(array if array.dtype.kind == "f" else wide)
    if datatype.name == "BF16":
        patterns = brain_float.from_float32(narrow)
        _refuse_where(spec, array, was_finite & ~np.isfinite(brain_float.to_float32(patterns)))
        return patterns
    _refuse_where(spec, array, was_finite & ~np.isfinite(narrow))
    return narrow


def _is_no_number(element: object) -> bool:
    if isinstance(element, str | bytes | bool):
        return True
    try:
        float(element)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return True
    return False


def _byte_strings(spec: TensorSpec, array: Array) -> Array:
    if isinstance(array, np.ndarray) and all(type(element) is bytes for element in array.ravel().tolist()):
        return np.asarray(array, order="C")
    encoded = np.empty(array.size, object)
    encoded[:] = [_encoded(spec, array, element) for element in array.ravel().tolist()]
    return encoded.reshape(array.shape)


def _encoded(spec: TensorSpec, array: Array, element: object) -> bytes:
    if isinstance(element, bytes):
        return bytes(element)
    if not isinstance(element, str):
        raise _wrong(spec, array, lambda each: not isinstance(each, str | bytes))
    try:
        return element.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"input {spec.name!r}: a text with lone surrogates, which has no UTF-8 form; pass bytes"
        ) from None


def _refuse_where(spec: TensorSpec, array: Array, wrong: Array) -> None:
    """Raises: InputError for the first element at which `wrong` is true."""
    if wrong.any():
        place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise InputError(f"input {spec.name!r}{_index(place)}: {array[place]} does not fit {spec.datatype.name}")


def _wrong(spec: TensorSpec, elements: Array, is_wrong: Any) -> InputError:
    """The error for the first of `elements` that `is_wrong`."""
    for place in np.ndindex(elements.shape):
        if is_wrong(elements[place]):
            element = elements[place]
            return InputError(
                f"input {spec.name!r}{_index(place)}: expected {_expected(spec.datatype)}, "
                f"got {type(element).__name__} {str(element)[:60]!r}"
            )
    raise AssertionError("asked for an element that is wrong where none is")


def _unsuited(spec: TensorSpec, array: Array) -> InputError:
    return InputError(f"input {spec.name!r}: expected {_expected(spec.datatype)}, got an array of {array.dtype}")


def _expected(datatype: Datatype) -> str:
    words = {"bool": "true or false", "int": "integers", "float": "numbers", "bytes": "bytes or str"}
    return f"{words[datatype.kind]} ({datatype.name})"


def _index(place: tuple[Any, ...]) -> str:
    return "".join(f"[{int(index)}]" for index in place)
