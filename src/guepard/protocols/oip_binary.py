"""Tensors as bytes: Triton's binary tensor data extension.

Every fixed-size datatype is little-endian and row-major. A BYTES element is a 4-byte little-endian length and that many
bytes. The arrays that come out are views on the body, which therefore lives as long as they do.
Source: Triton, "Binary Tensor Data Extension".
"""

import struct
from math import prod

import numpy as np

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import InputError
from guepard.core.tensor import Array

_LENGTH = struct.Struct("<I")
_ndarray = np.ndarray


def decode_array(name: str, datatype: str, shape: list[int], body: bytes | memoryview, start: int, size: int) -> Array:
    """The tensor that lies at `body[start : start + size]`, without a copy unless it is BYTES.

    Raises: InputError when `size` is not what datatype and shape need, with both numbers.
    """
    entry = DATATYPES[datatype]
    if entry.kind == "bytes":
        return _decode_strings(name, shape, memoryview(body)[start : start + size])
    if size != prod(shape) * entry.size:
        check_size(name, datatype, shape, size)
    if size:
        array: Array = _ndarray(shape, entry.dtype, body, start)
    else:
        array = _empty(name, shape, entry.dtype)
    if entry.kind == "bool" and size and int(array.view(np.uint8).max()) > 1:
        raise InputError(f"input {name!r}: a BOOL byte must be 0 or 1")
    return array


def check_size(name: str, datatype: str, shape: list[int], size: int, said: str | None = None) -> None:
    """Raises: InputError unless `size` bytes are what datatype and shape need. `said`: the parameter that says so.

    What BYTES need only their data tells.
    """
    entry = DATATYPES[datatype]
    expected = prod(shape) * entry.size
    if size != expected and entry.kind != "bytes":
        found = f"{said} is {size}" if said else f"its data is {size} bytes long"
        raise InputError(f"input {name!r}: {datatype} of shape {shape} takes {expected} bytes, {found}")


def _decode_strings(name: str, shape: list[int], data: memoryview) -> Array:
    expected = prod(shape)
    elements: list[bytes] = []
    offset, end = 0, len(data)
    while offset < end:
        if end - offset < _LENGTH.size:
            raise InputError(f"input {name!r}: BYTES data ends inside the length of element {len(elements)}")
        (length,) = _LENGTH.unpack_from(data, offset)
        offset += _LENGTH.size
        if length > end - offset:
            raise InputError(
                f"input {name!r}: BYTES element {len(elements)} is {length} bytes long but {end - offset} are left"
            )
        elements.append(bytes(data[offset : offset + length]))
        offset += length
        if len(elements) > expected:
            break
    if len(elements) != expected:
        came = f"more than {expected}" if len(elements) > expected else len(elements)
        raise InputError(f"input {name!r}: shape {shape} needs {expected} elements, the binary data holds {came}")
    array = _empty(name, shape, np.dtype(object))
    array.reshape(-1)[:] = elements
    return array


def _empty(name: str, shape: list[int], dtype: np.dtype) -> Array:
    """A shape with a 0 in it needs no data, whatever its other dimensions claim."""
    try:
        return np.empty(shape, dtype)
    except (ValueError, OverflowError):
        raise InputError(f"input {name!r}: shape {shape} is beyond what an array can have") from None


def encode_array(datatype: str, array: Array) -> bytes | memoryview:
    """The wire bytes of `array`: a view if it is large and in wire order already, else a copy."""
    if datatype == "BYTES":
        parts: list[bytes] = []
        for element in array.ravel().tolist():
            parts.append(_LENGTH.pack(len(element)))
            parts.append(element)
        return b"".join(parts)
    if array.nbytes < 65_536 or not array.flags.c_contiguous:
        return array.tobytes()
    return array.reshape(-1).view(np.uint8).data
