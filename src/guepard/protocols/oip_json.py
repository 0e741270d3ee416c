"""Tensors as JSON: `data` to arrays and arrays to `data`.

Two roads in. Flat data of the datatype that the model's inputs have is parsed and checked in one pass (`decode` with a
typed decoder). Everything else (nested data, mixed datatypes, anything wrong) takes the second: `data` stays raw, each
tensor is decoded on its own, and what is wrong is named precisely.
"""

from collections.abc import Sequence
from math import prod
from reprlib import repr as shortened
from typing import Any

import msgspec
import numpy as np
import orjson

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import InputError, NotAcceptable
from guepard.core.tensor import Array, Tensor, TensorSpec
from guepard.protocols import brain_float
from guepard.protocols.oip_messages import (
    MAX_RANK,
    WireRequest,
    WireTensor,
    data_decoder,
    known_datatype,
    refuse,
    request_decoder,
)
from guepard.protocols.oip_parameters import refuse_tensor_parameters

_NUMPY = orjson.OPT_SERIALIZE_NUMPY
_dumps = orjson.dumps
_raw_decode = request_decoder(None).decode


def shared_datatype(specs: Sequence[TensorSpec]) -> str | None:
    """The one datatype of all `specs` if the flat road suits it, else None."""
    names = {spec.datatype.name for spec in specs}
    name = names.pop() if len(names) == 1 else None
    return name if name not in ("BYTES", "BF16", "BOOL") else None


def decode(body: bytes | memoryview) -> WireRequest[msgspec.Raw]:
    """Parse a request, leaving each tensor's `data` raw. Raises: InputError."""
    if not body:
        raise InputError("request body: empty; send an inference request as JSON")
    try:
        return _raw_decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        refuse(error)


def tensor(wire: WireTensor[msgspec.Raw], where: str) -> Tensor:
    """One input that brings its data as JSON. Raises: InputError, Unsupported."""
    if wire.parameters:
        refuse_tensor_parameters(where, wire.parameters)
        if "binary_data_size" in wire.parameters:
            raise InputError(
                f"{where}.parameters.binary_data_size: binary data needs the Inference-Header-Content-Length header"
            )
    if isinstance(wire.data, msgspec.UnsetType):
        raise InputError(f"input {wire.name!r}: no data; send data as JSON or binary_data_size and the bytes")
    return tensor_from_raw(wire.name, wire.datatype, wire.shape, wire.data, where)


def tensor_from_raw(name: str, datatype: str, shape: list[int], raw: msgspec.Raw, where: str) -> Tensor:
    """One input from its raw `data`, flat or nested.

    Shapes: flat data is row-major and holds exactly prod(shape) elements; nested data has exactly `shape`.
    Raises: InputError that names the input, what was expected and what came.
    """
    known_datatype(name, datatype)
    text = bytes(raw)
    depth = depth_of(text)
    label = f"input {name!r}: data"
    if depth == 0:
        raise InputError(f"{where}.data: expected an array, got {_json_kind(text)}")
    if depth > MAX_RANK:
        raise InputError(f"{label}: nested too deeply (more than {MAX_RANK} levels)")
    if depth not in (1, _full_depth(shape)):
        raise InputError(
            f"{label} is nested {depth} deep where shape {shape} nests {_full_depth(shape)} deep; "
            "send flat or fully nested data"
        )
    try:
        values = data_decoder(datatype, depth).decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        refuse(error, label)
    if depth > 1:
        array = _nested_array(datatype, values, shape)
        if array is not None:
            return Tensor(name, datatype, array)
        check_nesting(label, values, shape)
        for _ in range(depth - 1):
            values = [item for inner in values for item in inner]
    expected = prod(shape)
    if len(values) != expected:
        raise InputError(f"input {name!r}: shape {shape} needs {expected} elements, data holds {len(values)}")
    try:
        return Tensor(name, datatype, _array(label, datatype, values).reshape(shape))
    except (ValueError, OverflowError):
        raise InputError(f"input {name!r}: shape {shape} is beyond what an array can have") from None


def _nested_array(datatype: str, values: list[object], shape: list[int]) -> Array | None:
    """Nested numbers at once, in C; None for what needs a closer look."""
    if datatype in ("BYTES", "BF16"):
        return None
    try:
        array = np.array(values, DATATYPES[datatype].dtype)
    except (ValueError, OverflowError, TypeError):
        return None
    return array if array.shape == tuple(shape) else None


def _array(label: str, datatype: str, values: list[object]) -> Array:
    entry = DATATYPES[datatype]
    if datatype == "BYTES":
        array = np.empty(len(values), object)
        array[:] = [value.encode() for value in values]  # type: ignore[attr-defined]
        return array
    if datatype == "BF16":
        return brain_float.from_float32(np.array(values, np.float32))
    try:
        return np.array(values, entry.dtype)
    except OverflowError:
        refuse_overflow(label, datatype, values)
        raise


def depth_of(text: bytes) -> int:
    """How many arrays open before the first element."""
    return text.count(b"[", 0, len(text) - len(text.lstrip(b"[ \t\r\n")))


def _full_depth(shape: Sequence[int]) -> int:
    """How deep fully nested data of `shape` goes: lists end where there is nothing left to hold."""
    return shape.index(0) + 1 if 0 in shape else len(shape)


def refuse_overflow(label: str, datatype: str, value: object) -> None:
    """Raises: InputError at the first integer in `value`, however deep, that no unsigned 64 bits hold."""
    if isinstance(value, list):
        for index, inner in enumerate(value):
            refuse_overflow(f"{label}[{index}]", datatype, inner)
    elif isinstance(value, int) and not 0 <= value < 2**64:
        raise InputError(f"{label}: {shortened(value)} does not fit {datatype}")


def check_nesting(label: str, values: Sequence[object], shape: Sequence[int], why: str = "to fit the shape") -> None:
    """Raises: InputError at the first list whose length is not the one that `shape` gives it."""
    if len(values) != shape[0]:
        raise InputError(f"{label}: expected {shape[0]} items here {why}, got {len(values)}")
    if len(shape) > 1:
        for index, inner in enumerate(values):
            check_nesting(f"{label}[{index}]", inner, shape[1:], why)  # type: ignore[arg-type]


def _json_kind(text: bytes) -> str:
    first = text.lstrip()[:1]
    return {b"{": "an object", b'"': "a string", b"t": "a boolean", b"f": "a boolean", b"n": "null"}.get(
        first, "a number"
    )


def encode_array(spec: TensorSpec, array: Array) -> bytes:
    """The JSON of `array`, nested as its shape, which is an output that `spec` declares. A flat array gives flat data.

    Raises: NotAcceptable for what JSON cannot carry: NaN, infinities and byte strings that are not UTF-8.
    Cost: one pass in C for numbers, no Python object per element.
    """
    if not spec.plain:
        if spec.datatype.kind == "bytes":
            return _dumps(nested_strings(spec, array))
        array = brain_float.to_float32(array)
    text = _dumps(array, None, _NUMPY)
    if b"l" in text and spec.datatype.kind == "float":  # null is how orjson writes what JSON has no number for
        raise no_number(spec)
    return text


def nested_strings(spec: TensorSpec, array: Array) -> Any:
    """The text of a BYTES output, in lists nested as its shape. Raises: NotAcceptable."""
    try:
        texts = [element.decode() for element in array.ravel().tolist()]
    except UnicodeDecodeError:
        raise no_text(spec) from None
    return texts if array.ndim == 1 else nest(texts, array.shape)


def nest(elements: Sequence[object], shape: Sequence[int]) -> Any:
    """Flat, row-major `elements` as lists nested as `shape`; the element itself for a shape without dimensions."""
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(shape).tolist()


def no_number(spec: TensorSpec) -> NotAcceptable:
    return NotAcceptable(
        f"output {spec.name!r} holds NaN or an infinity, which JSON cannot carry; ask for it as binary data (OIP V2)"
    )


def no_text(spec: TensorSpec) -> NotAcceptable:
    return NotAcceptable(
        f"output {spec.name!r} holds bytes that are not UTF-8, which JSON cannot carry; "
        "ask for it as binary data (OIP V2)"
    )
