"""Typed tensor contents (`InferTensorContents`) to arrays and back.

OIP has no contents for FP16 and BF16; both travel as `fp32_contents`, which is what their JSON numbers are.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import InputError
from guepard.core.tensor import Array
from guepard.protocols import brain_float
from guepard.protocols.grpc_messages import message_class
from guepard.protocols.oip_messages import BF16_BOUND, FP16_BOUND

FIELDS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    **dict.fromkeys(("FP16", "BF16", "FP32"), "fp32_contents"),
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}

_WIDE = {"int_contents": np.int32, "uint_contents": np.uint32, "fp32_contents": np.float32}
_BOUNDS = {"FP16": FP16_BOUND, "BF16": BF16_BOUND}


def decode_contents(name: str, datatype: str, shape: Sequence[int], contents: Any, where: str) -> Array:
    """The array that `contents` hold.

    Raises: InputError for contents in the field of another datatype, for a wrong count and for values that do not fit.
    """
    field = FIELDS[datatype]
    for other, _ in contents.ListFields():
        if other.name != field:
            raise InputError(f"{where}.contents: {datatype} data belongs into {field}, {other.name} came")
    values = getattr(contents, field)
    expected = prod(shape)
    if len(values) != expected:
        raise InputError(f"input {name!r}: shape {list(shape)} needs {expected} elements, {field} holds {len(values)}")
    try:
        return _array(datatype, field, values, f"{where}.contents.{field}").reshape(shape)
    except (ValueError, OverflowError):
        raise InputError(f"input {name!r}: shape {list(shape)} is beyond what an array can have") from None


def _array(datatype: str, field: str, values: Sequence[Any], label: str) -> Array:
    dtype = DATATYPES[datatype].dtype
    if datatype == "BYTES":
        array: Array = np.empty(len(values), object)
        array[:] = list(values)
        return array
    wide: Array = np.array(values, _WIDE.get(field, dtype))
    if wide.dtype == dtype:
        return wide
    if dtype.kind in "iu" and datatype != "BF16":
        limits = np.iinfo(dtype)
        _refuse_outside(datatype, wide, (wide < limits.min) | (wide > limits.max), label)
        return wide.astype(dtype)
    _refuse_outside(datatype, wide, np.isfinite(wide) & (np.abs(wide) >= _BOUNDS[datatype]), label)
    return brain_float.from_float32(wide) if datatype == "BF16" else wide.astype(dtype)


def _refuse_outside(datatype: str, values: Array, outside: Array, label: str) -> None:
    if outside.any():
        index = int(outside.argmax())
        raise InputError(f"{label}[{index}]: {values[index].item()} does not fit {datatype}")


def encode_contents(datatype: str, array: Array) -> Any:
    """`array` as an `InferTensorContents` message. Cost: a Python object per element."""
    contents = message_class("inference.InferTensorContents")()
    flat = array.reshape(-1)
    if datatype == "BF16":
        flat = brain_float.to_float32(flat)
    getattr(contents, FIELDS[datatype]).extend(flat.tolist())
    return contents
