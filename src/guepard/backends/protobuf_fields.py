"""The fields of a protobuf message, found without its schema and without reading what they hold.

Source: protobuf's encoding guide.
"""

import mmap
from collections.abc import Iterator

Buffer = bytes | mmap.mmap

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}


def fields(data: Buffer, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The length-delimited fields of the message in data[start:end] as (number, first byte, end).

    Raises: ValueError wherever a lenient parser might see something else than this one does.
    """
    for number, wire_type, first, last in _all(data, start, end):
        if wire_type == _LENGTH_DELIMITED:
            yield number, first, last


def numbers(data: Buffer, start: int, end: int, wanted: int) -> Iterator[int]:
    """The numbers in the fields `wanted` of the message, each in its own or all in one. Raises: ValueError."""
    for number, wire_type, first, last in _all(data, start, end):
        if number == wanted and wire_type in (_VARINT, _LENGTH_DELIMITED):
            while first < last:
                value, first = _varint(data, first, last, 10)
                yield value


def _all(data: Buffer, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    while start < end:
        tag, start = _varint(data, start, end, 5)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag >> 32:
            raise ValueError("bad tag")
        if wire_type == _LENGTH_DELIMITED:
            size, start = _varint(data, start, end, 5)
            stop = start + size
        elif wire_type == _VARINT:
            _, stop = _varint(data, start, end, 10)
        elif wire_type in _FIXED_SIZES:
            stop = start + _FIXED_SIZES[wire_type]
        else:
            raise ValueError("groups have no place in an ONNX model")
        if stop > end:
            raise ValueError("a field is longer than its message")
        yield number, wire_type, start, stop
        start = stop


def _varint(data: Buffer, start: int, end: int, longest: int) -> tuple[int, int]:
    """The number that begins at `start`, and where it ends."""
    value = 0
    for index in range(min(longest, end - start)):
        byte = data[start + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, start + index + 1
    raise ValueError("unfinished number")
