"""Answers in JSON that are too long to be written in one go, slice by slice.

A slice takes about half a millisecond. Put together, the slices are byte for byte what one go writes.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Self

import numpy as np
import orjson

from guepard.core.tensor import Array, TensorSpec
from guepard.protocols import oip_json

Buffer = bytes | memoryview

LARGE = 32_768
"""The weight from which on an answer is written in slices: about 300 KB of floats."""

BYTES_PER_WEIGHT = 8  # of text, which is written so much faster than numbers
TEXT_BYTES = 131_072  # of strings in one slice; a longer one is cut

_WEIGHT = 16_384  # of one slice
_CHECKED = 65_536  # numbers looked at in one step
_STRINGS = 2_048  # strings looked at in one step


class Rows(Protocol):
    """Rows of an answer, which stand between commas."""

    def __len__(self) -> int: ...

    @property
    def weight(self) -> int:
        """How long one of them takes to be written, in numbers, whatever the length of its strings."""
        ...

    @property
    def text_bytes(self) -> int:
        """The length of the strings in all of them. Asked of few rows only."""
        ...

    def check(self) -> Iterator[None]:
        """Look for what JSON cannot carry. Raises: NotAcceptable."""
        ...

    def part(self, start: int, stop: int) -> Self: ...

    def encode(self) -> bytes:
        """Their JSON in one go."""
        ...

    def encode_only(self, before: bytes, after: bytes) -> Iterator[bytes]:
        """The JSON of the only one, which is too long for one go, between `before` and `after`."""
        ...


class LargeJson:
    """The text is `parts` one after another: what is written already, and rows that have yet to be.

    The data of `binary` follow it.
    """

    def __init__(self, parts: Sequence[bytes | Rows], binary: Sequence[Buffer] = ()) -> None:
        self._parts = parts
        self.binary = binary

    def check(self) -> Iterator[None]:
        """Look for what JSON cannot carry. Raises: NotAcceptable."""
        for part in self._parts:
            if not isinstance(part, bytes):
                yield from part.check()

    def text(self) -> Iterator[bytes]:
        """The JSON. To be called once it has been checked."""
        before = b""
        for part in self._parts:
            if isinstance(part, bytes):
                before += part
            else:
                yield from slices(part, before)
                before = b""
        yield before


def slices(rows: Rows, before: bytes = b"", after: bytes = b"") -> Iterator[bytes]:
    """The JSON of `rows` between `before` and `after`. A row that is too long for a slice is cut within."""
    count = len(rows)
    step = _WEIGHT // rows.weight
    if step >= count and rows.text_bytes > TEXT_BYTES:
        step = count // 2
    if step >= count:
        yield b"%b%b%b" % (before, rows.encode(), after)
    elif count == 1:
        yield from rows.encode_only(before, after)
    else:
        step = max(step, 1)
        for start in range(0, count, step):
            yield from slices(rows.part(start, start + step), before, after if start + step >= count else b"")
            before = b","


class NumberRows:
    """Rows of the output that `spec` declares; `flat` leaves out the brackets within."""

    weight_of_one = 1

    def __init__(self, spec: TensorSpec, array: Array, flat: bool = False) -> None:
        self.spec = spec
        self.array = array.reshape(-1) if flat and array.flags.c_contiguous else array
        self._flat = flat

    def __len__(self) -> int:
        return len(self.array)

    @property
    def weight(self) -> int:
        return self.weight_of_one * extent(self.array.shape[1:])

    @property
    def text_bytes(self) -> int:
        return 0

    def check(self) -> Iterator[None]:
        spec, array = self.spec, self.array
        if spec.datatype.kind != "float":
            return
        flat = _flat(array)
        for start in range(0, array.size, _CHECKED):
            part = flat[start : start + _CHECKED]
            # BF16 travels as its bits: all ones in the exponent are what is no number.
            finite = np.isfinite(part) if spec.plain else part & 0x7F80 != 0x7F80
            if not finite.all():
                raise oip_json.no_number(spec)
            yield

    def part(self, start: int, stop: int) -> Self:
        return type(self)(self.spec, self.array[start:stop], self._flat)

    def encode(self) -> bytes:
        return self.encode_array(self.array.reshape(-1) if self._flat else self.array)[1:-1]

    def encode_array(self, array: Array) -> bytes:
        return oip_json.encode_array(self.spec, array)

    def encode_only(self, before: bytes, after: bytes) -> Iterator[bytes]:
        row = type(self)(self.spec, self.array[0], self._flat)
        return slices(row, before, after) if self._flat else slices(row, before + b"[", b"]" + after)


class StringRows(NumberRows):
    weight_of_one = 8

    @property
    def text_bytes(self) -> int:
        return sum([len(element) for element in self.array.flat])

    def check(self) -> Iterator[None]:
        flat = _flat(self.array)
        size = 0
        try:
            for start in range(0, self.array.size, _STRINGS):
                for element in flat[start : start + _STRINGS].tolist():
                    for part in cut(element):
                        part.decode()
                        size += len(part)
                        if size >= TEXT_BYTES:
                            size = 0
                            yield
                yield
        except UnicodeDecodeError:
            raise oip_json.no_text(self.spec) from None

    def encode_only(self, before: bytes, after: bytes) -> Iterator[bytes]:
        return (
            self.encode_long(self.array[0], before, after)
            if self.array.ndim == 1
            else super().encode_only(before, after)
        )

    def encode_long(self, element: bytes, before: bytes, after: bytes) -> Iterator[bytes]:
        yield before + b'"'
        for part in cut(element):
            yield orjson.dumps(part.decode())[1:-1]
        yield b'"' + after


def rows_of(spec: TensorSpec, array: Array, flat: bool = False) -> NumberRows:
    return (StringRows if spec.datatype.kind == "bytes" else NumberRows)(spec, array, flat)


def weight(spec: TensorSpec, array: Array) -> int:
    """How long `array` takes to be written flat, in numbers."""
    size: int = array.size
    if spec.datatype.kind != "bytes" or size > LARGE:
        return size
    return size + sum([len(element) for element in array.flat]) // BYTES_PER_WEIGHT


def extent(shape: Sequence[int]) -> int:
    """The elements of an array of `shape`, and the lists that they are nested in."""
    count = 1
    for dim in reversed(shape):
        count = 1 + dim * count
    return count


def _flat(array: Array) -> Any:
    """Row-major, to be cut into slices, none of which copies the whole."""
    return array.reshape(-1) if array.flags.c_contiguous else array.flat


def cut(element: bytes) -> Iterator[bytes]:
    """Parts of a UTF-8 string, none of which ends within a character."""
    start, end = 0, len(element)
    if end <= TEXT_BYTES:
        yield element
        return
    while start < end:
        stop = min(start + TEXT_BYTES, end)
        for back in range(4 if stop < end else 0):
            if element[stop - back] & 0xC0 != 0x80:  # a character begins here
                stop -= back
                break
        yield element[start:stop]
        start = stop
