"""Answers in JSON that are too long to be written in one go, slice by slice.

A slice takes about half a millisecond. Put together, the slices are byte for byte what `oip_json.encode_array` writes.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from guepard.core.tensor import Array, TensorSpec
from guepard.protocols import oip_json

Buffer = bytes | memoryview

LARGE = 32_768
"""The weight from which on an answer is written in slices: about 300 KB of floats."""

_ELEMENTS = 16_384  # numbers of one slice
_CHECKED = 65_536  # numbers looked at in one step
_TEXT_BYTES = 131_072  # of strings in one slice; a longer one is cut
_STRINGS = 2_048  # strings of one slice
_BYTES_PER_WEIGHT = 8  # of text, which is written so much faster than numbers


class JsonOutput(NamedTuple):
    """`head` is what stands before the data, from the opening brace on."""

    head: bytes
    spec: TensorSpec
    array: Array


class LargeJson:
    """The text is `opening`, the outputs' objects between commas, and a closing bracket and brace.

    `outputs` holds an output that is JSON, or the whole object of one whose data follows as one of `binary`.
    """

    def __init__(self, opening: bytes, outputs: Sequence[JsonOutput | bytes], binary: Sequence[Buffer] = ()) -> None:
        self._opening = opening
        self._outputs = outputs
        self.binary = binary

    def check(self) -> Iterator[None]:
        """Look for what JSON cannot carry. Raises: NotAcceptable."""
        for output in self._outputs:
            if isinstance(output, bytes):
                continue
            _, spec, array = output
            kind = spec.datatype.kind
            if kind == "bytes":
                yield from _check_strings(spec, array)
            elif kind == "float":
                yield from _check_numbers(spec, array)

    def text(self) -> Iterator[bytes]:
        """The JSON. To be called once it has been checked."""
        before = b'%b"outputs":[' % self._opening
        for output in self._outputs:
            if isinstance(output, bytes):
                yield before + output
            else:
                yield b'%b%b"data":[' % (before, output.head)
                yield from _strings(output.array) if output.spec.datatype.kind == "bytes" else _numbers(output)
                yield b"]}"
            before = b","
        yield b"]}"


def weight(spec: TensorSpec, array: Array) -> int:
    """How long `array` takes to be written, in numbers."""
    size: int = array.size
    if spec.datatype.kind != "bytes" or size > LARGE:
        return size
    return size + sum([len(element) for element in array.flat]) // _BYTES_PER_WEIGHT


def _flat(array: Array) -> Any:
    """Row-major, to be cut into slices, none of which copies the whole."""
    return array.reshape(-1) if array.flags.c_contiguous else array.flat


def _numbers(output: JsonOutput) -> Iterator[bytes]:
    flat = _flat(output.array)
    for start in range(0, output.array.size, _ELEMENTS):
        text = oip_json.encode_array(output.spec, flat[start : start + _ELEMENTS])
        yield text[1:-1] if start == 0 else b"," + text[1:-1]


def _check_numbers(spec: TensorSpec, array: Array) -> Iterator[None]:
    flat = _flat(array)
    for start in range(0, array.size, _CHECKED):
        part = flat[start : start + _CHECKED]
        # BF16 travels as its bits: all ones in the exponent are what is no number.
        finite = np.isfinite(part) if spec.plain else part & 0x7F80 != 0x7F80
        if not finite.all():
            raise oip_json.no_number(spec)
        yield


def _strings(array: Array) -> Iterator[bytes]:
    comma = b""
    for elements in _string_slices(array):
        if len(elements) == 1 and len(elements[0]) > _TEXT_BYTES:
            yield comma + b'"'
            for part in _cut(elements[0]):
                yield orjson.dumps(part.decode())[1:-1]
            yield b'"'
        else:
            yield comma + orjson.dumps([element.decode() for element in elements])[1:-1]
        comma = b","


def _check_strings(spec: TensorSpec, array: Array) -> Iterator[None]:
    try:
        for elements in _string_slices(array):
            for element in elements:
                for part in _cut(element):
                    part.decode()
                    if len(element) > _TEXT_BYTES:
                        yield
            yield
    except UnicodeDecodeError:
        raise oip_json.no_text(spec) from None


def _string_slices(array: Array) -> Iterator[list[bytes]]:
    """The elements in groups of bounded size; one that is longer is a group of its own."""
    flat = _flat(array)
    for start in range(0, array.size, _STRINGS):
        group: list[bytes] = []
        size = 0
        for element in flat[start : start + _STRINGS].tolist():
            if group and size + len(element) > _TEXT_BYTES:
                yield group
                group, size = [], 0
            group.append(element)
            size += len(element)
        yield group


def _cut(element: bytes) -> Iterator[bytes]:
    """Parts of a UTF-8 string, none of which ends within a character."""
    start, end = 0, len(element)
    if end <= _TEXT_BYTES:
        yield element
        return
    while start < end:
        stop = min(start + _TEXT_BYTES, end)
        for back in range(4 if stop < end else 0):
            if element[stop - back] & 0xC0 != 0x80:  # a character begins here
                stop -= back
                break
        yield element[start:stop]
        start = stop
