"""Outputs as predict answers have them: nested as their shape, or an object for each row. In one go or in slices.

Byte strings of outputs whose names end in `_bytes` are written as Base64, as in TensorFlow Serving.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import orjson

from guepard.core.tensor import Array, TensorSpec
from guepard.protocols import brain_float
from guepard.protocols.large_json import (
    BYTES_PER_WEIGHT,
    LARGE,
    TEXT_BYTES,
    NumberRows,
    Rows,
    StringRows,
    rows_of,
    slices,
)
from guepard.protocols.oip_json import encode_array, nest, nested_strings, no_number

_NUMPY = orjson.OPT_SERIALIZE_NUMPY
SMALL = 4_096
"""Numbers up to which an output is not large by itself, and the lists that they are nested in do not matter."""

_MEMBER = 16  # the weight of an object's member beside its value
_BASE64_PART = TEXT_BYTES // 3 * 3  # has no padding within the whole


# In one go


def encode_output(spec: TensorSpec, array: Array) -> bytes:
    """An output as JSON, nested as its shape. Raises: NotAcceptable."""
    if spec.datatype.kind == "bytes" and spec.name.endswith("_bytes"):
        return orjson.dumps(_base64(array))
    if array.ndim == 0 and spec.datatype.kind != "bytes":
        array = _scalars(spec, array)
    return encode_array(spec, array)


def encode_objects(specs: Sequence[TensorSpec], outputs: Sequence[Array]) -> bytes:
    """An object for each row. The rows stay arrays, so that orjson writes their numbers. Raises: NotAcceptable."""
    columns: list[Iterable[Any]] = []
    for spec, array in zip(specs, outputs, strict=True):
        if spec.datatype.kind == "bytes":
            columns.append(_base64(array) if spec.name.endswith("_bytes") else nested_strings(spec, array))
            continue
        if spec.datatype.kind == "float":
            if not spec.plain:
                array = brain_float.to_float32(array)
            if not np.isfinite(array).all():
                raise no_number(spec)
        columns.append(_scalars(spec, array) if array.ndim == 1 else array)
    names = [spec.name for spec in specs]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return orjson.dumps(rows, None, _NUMPY)


def _scalars(spec: TensorSpec, array: Array) -> Any:
    """`array`, of at most one dimension, in a form whose elements orjson writes one by one.

    Floats stay numpy's, so that they are written with the digits of their own precision. Integers become Python's:
    numpy has more types for them than orjson knows outside of arrays.
    """
    return array[()] if spec.datatype.kind == "float" else array.tolist()


def _base64(array: Array) -> Any:
    return nest([{"b64": b64encode(element).decode()} for element in array.ravel().tolist()], array.shape)


# In slices


def are_large(specs: Sequence[TensorSpec], outputs: Sequence[Array], members: int = 0) -> bool:
    """Whether `outputs`, which are together that many members of objects, are to be written in slices."""
    total = members * _MEMBER
    for spec, array in zip(specs, outputs, strict=True):
        size = array.size
        if 0 < size <= SMALL and spec.datatype.kind != "bytes":
            total += size
            continue
        rows = _rows(spec, array[np.newaxis])
        total += rows.weight
        if total <= LARGE:
            total += rows.text_bytes // BYTES_PER_WEIGHT
    return total > LARGE


def large_output(spec: TensorSpec, array: Array) -> Rows:
    """What `encode_output` writes."""
    return _rows(spec, array[np.newaxis])


def large_objects(specs: Sequence[TensorSpec], outputs: Sequence[Array]) -> Rows:
    """What `encode_objects` writes, without the brackets."""
    return _ObjectRows([_rows(spec, array) for spec, array in zip(specs, outputs, strict=True)])


def _rows(spec: TensorSpec, array: Array) -> NumberRows:
    if spec.datatype.kind == "bytes" and spec.name.endswith("_bytes"):
        return _Base64Rows(spec, array)
    return rows_of(spec, array)


class _Base64Rows(StringRows):
    weight_of_one = 16

    def check(self) -> Iterator[None]:
        return iter(())

    def encode_array(self, array: Array) -> bytes:
        return orjson.dumps(_base64(array))

    def encode_long(self, element: bytes, before: bytes, after: bytes) -> Iterator[bytes]:
        yield before + b'{"b64":"'
        for start in range(0, len(element), _BASE64_PART):
            yield b64encode(element[start : start + _BASE64_PART])
        yield b'"}' + after


class _ObjectRows:
    """An object for each row, whose members are rows of `columns`."""

    def __init__(self, columns: Sequence[NumberRows]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def weight(self) -> int:
        return sum([_MEMBER + column.weight for column in self._columns])

    @property
    def text_bytes(self) -> int:
        return sum([column.text_bytes for column in self._columns])

    def check(self) -> Iterator[None]:
        for column in self._columns:
            yield from column.check()

    def part(self, start: int, stop: int) -> Self:
        return type(self)([column.part(start, stop) for column in self._columns])

    def encode(self) -> bytes:
        columns = self._columns
        return encode_objects([column.spec for column in columns], [column.array for column in columns])[1:-1]

    def encode_only(self, before: bytes, after: bytes) -> Iterator[bytes]:
        before += b"{"
        for column in self._columns:
            yield from slices(column, b"%b%b:" % (before, orjson.dumps(column.spec.name)))
            before = b","
        yield b"}" + after
