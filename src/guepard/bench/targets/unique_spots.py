"""Where a payload may be rewritten so that no two are alike, and still mean something.

A place is only taken if it tells a million requests apart. Where one number cannot, small ones side by side can: eight
token ids from 0 to 9 stay in any vocabulary. What a user wrote is rewritten only where decimals or raw floats hold the
number.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from guepard.bench.targets.random_tensors import DIGITS, MARK_DIGITS, SMALL_COUNT, is_free
from guepard.core.datatypes import DATATYPES
from guepard.core.tensor import Array, Tensor
from guepard.measure.load.plan import UniqueSpot
from guepard.protocols import brain_float

_LENGTH_BYTES = 4
_MIN_SMALL = 6
_HALF_COUNT = 4
# Strings are matched to be passed over: a number inside one is somebody's text.
_NUMBER = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*"|(?<![\d.])(?P<whole>\d)\.(?P<digits>\d{6,})(?![\d.eE])')


class BytesSpot(NamedTuple):
    """Which tensor, and where in its own bytes."""

    tensor: int
    spot: UniqueSpot


class Marked(NamedTuple):
    """JSON of an array, with a place in it."""

    text: bytes
    spot: UniqueSpot


def bytes_spot(tensors: Sequence[Tensor], generated: bool) -> BytesSpot | None:
    """Where the raw bytes of one of `tensors` may be rewritten; `generated`: the values have no meaning."""
    ranked = sorted(enumerate(tensors), key=lambda pair: _rank(pair[1]))
    for index, tensor in ranked:
        spot = _raw_spot(tensor, generated)
        if spot is not None:
            return BytesSpot(index, spot)
    return None


def _raw_spot(tensor: Tensor, generated: bool) -> UniqueSpot | None:
    entry, count = DATATYPES[tensor.datatype], tensor.array.size
    match entry.name:
        case "FP32" | "FP64" if count:
            return UniqueSpot(offset=0, width=entry.size, form="float32" if entry.size == 4 else "float64")
        case "FP16" | "BF16" if count >= _HALF_COUNT:  # the lower byte of each: mantissa, and a bit of the exponent
            return UniqueSpot(offset=0, width=_HALF_COUNT, form="uint", stride=entry.size)
        case "BYTES" if count and generated:
            return UniqueSpot(offset=_LENGTH_BYTES, width=MARK_DIGITS, form="digits")
        case "UINT8" if count >= SMALL_COUNT and is_free(tensor.name):  # pixels
            return UniqueSpot(offset=0, width=SMALL_COUNT, form="uint")
    if entry.kind == "int" and generated and count >= _MIN_SMALL and is_free(tensor.name):
        return UniqueSpot(offset=0, width=min(count, SMALL_COUNT), form="small", stride=entry.size)
    return None


def text_candidate(tensors: Sequence[Tensor], runs: Sequence[int]) -> int | None:
    """The generated tensor whose first elements' text may be written anew; `runs`: how many lie side by side."""
    ranked = sorted(enumerate(tensors), key=lambda pair: _rank(pair[1]))
    return next((index for index, tensor in ranked if _can_be_marked(tensor, runs[index])), None)


def _can_be_marked(tensor: Tensor, run: int) -> bool:
    if tensor.datatype in ("FP32", "FP64", "BYTES"):
        return run > 0
    return tensor.datatype != "BOOL" and run >= _MIN_SMALL and is_free(tensor.name)


def marked(tensor: Tensor, array: Array, text: bytes) -> Marked:
    """`text`, the JSON of `array`, with its first elements in a form of fixed width. `array` begins `tensor`."""
    depth = len(text) - len(text.lstrip(b"["))
    if tensor.datatype == "BYTES":
        return Marked(text, UniqueSpot(offset=depth + 1, width=MARK_DIGITS, form="digits"))
    end = text.find(b"]")
    elements = text[depth : end if end >= 0 else len(text)].split(b",", SMALL_COUNT)
    rest = text[depth + sum(map(len, elements)) + len(elements) - 1 :]
    if tensor.datatype in ("FP32", "FP64"):
        elements[0] = b"0.%0*d" % (DIGITS, round(float(array.flat[0]) * 10**DIGITS))
        spot = UniqueSpot(offset=depth + 2, width=DIGITS, form="digits")
    else:
        count = min(len(elements), SMALL_COUNT)
        is_half = tensor.datatype in ("FP16", "BF16")
        if is_half:
            values = array.reshape(-1)[:count]
            values = brain_float.to_float32(values) if tensor.datatype == "BF16" else values
            elements[:count] = [b"0.%d" % round(float(value) * 10) for value in values]
        spot = UniqueSpot(offset=depth + 2 * is_half, width=count, form="digits", stride=4 if is_half else 2)
    return Marked(text[:depth] + b",".join(elements) + rest, spot)


def number_spot(body: bytes, after: bytes = b"") -> UniqueSpot | None:
    """Decimals of the first float of a JSON text that has enough of them, behind the first `after`.

    Six digits of a number below 10, seven of one below 1: what FP32 can tell apart.
    """
    for match in _NUMBER.finditer(body, max(body.find(after), 0)):
        if match["digits"] is not None:
            width = DIGITS if match["whole"] == b"0" else DIGITS - 1
            return UniqueSpot(offset=match.start("digits"), width=min(width, len(match["digits"])), form="digits")
    return None


def moved(spot: UniqueSpot | None, offset: int) -> UniqueSpot | None:
    """The same spot in bytes that begin `offset` earlier."""
    if spot is None:
        return None
    return UniqueSpot(offset=spot.offset + offset, width=spot.width, form=spot.form, stride=spot.stride)


def _rank(tensor: Tensor) -> int:
    """Which datatypes are rewritten first: those that hold a number in one element, and mean least."""
    return {"FP32": 0, "FP64": 0, "BYTES": 1, "UINT8": 2, "FP16": 4, "BF16": 4}.get(tensor.datatype, 3)
