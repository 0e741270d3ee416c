"""JSON text of numbers, flat or nested, into arrays: by the compiled part where there is one, else piece by piece.

Both take what is plainly right and leave everything else, `None`, to whoever reads the body as a whole and can say what
is wrong. Neither keeps the interpreter's lock for long: the compiled part lets go of it, and a piece is 128 KiB, about
half a millisecond.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import inf, prod
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from guepard.core.datatypes import DATATYPES
from guepard.core.tensor import Array
from guepard.protocols import brain_float
from guepard.protocols.compiled_part import load_compiled
from guepard.protocols.flat_numbers import CODES, FlatNumbers
from guepard.protocols.oip_messages import BF16_BOUND, FP16_BOUND, FP32_BOUND, data_decoder

Pause = Callable[[], None]

PIECE = 131_072

_NUMBER = b"0123456789+-.eE"
_SPACE = b" \t\r\n"
_AS_ZERO = bytes.maketrans(_NUMBER + b"truefalsn", b"0" * (len(_NUMBER) + 9))
_AS_SPACE = bytes.maketrans(b"[]", b"  ")
_FAULTS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError, OverflowError)

# How each datatype is read: the element's code in the struct module, and what floats have to stay below.
_KINDS = {name: (code, inf) for name, code in CODES.items()} | {
    "BOOL": ("?", inf),
    "BF16": ("f", BF16_BOUND),
    "FP16": ("d", FP16_BOUND),
    "FP32": ("f", FP32_BOUND),
}


_compiled = load_compiled()


def read_numbers(text: memoryview, datatype: str, shape: Sequence[int], flat: bool, pause: Pause) -> Array | None:
    """The array of `shape` that `text` is, in memory of its own. None: read it another way.

    Shapes: `flat` text is one list of prod(shape) numbers, other text is nested as `shape`, which has a dimension.
    `pause` is called between pieces. Cost: compiled 6 to 15 ns a number.
    """
    count = prod(shape)
    if not 0 < count <= len(text) or datatype not in _KINDS:  # a number has a character
        return None
    dims = (count,) if flat else tuple(shape)
    array = _read_compiled(_compiled, text, datatype, dims) if _compiled is not None else None
    if array is None:
        array = _read_pieces(text, datatype, dims, pause)
    return None if array is None else array.reshape(shape)


def _read_compiled(compiled: ModuleType, text: memoryview, datatype: str, dims: tuple[int, ...]) -> Array | None:
    kind, bound = _KINDS[datatype]
    array: Array = np.empty(dims, np.dtype(kind))
    if not compiled.read(text, dims, kind, bound, array):
        return None
    if datatype == "BF16":
        return brain_float.from_float32(array)
    return array.astype(np.float16) if datatype == "FP16" else array


def _read_pieces(text: memoryview, datatype: str, dims: tuple[int, ...], pause: Pause) -> Array | None:
    array: Array = np.empty(dims, DATATYPES[datatype].dtype)
    flat = array.reshape(-1)
    numeric = FlatNumbers(datatype) if datatype in CODES else None
    decode = (data_decoder(datatype, 1) if numeric is None else _plain_decoder(datatype)).decode
    numbers = 0
    try:
        for piece in _pieces_of_list(text) if len(dims) == 1 else _pieces_of_lists(text, _brackets(dims)):
            values: list[Any] = decode(piece)
            if not values or numbers + len(values) > len(flat):
                return None
            made = _converted(datatype, values) if numeric is None else numeric.array((len(values),), values)
            if made is None:
                return None
            flat[numbers : numbers + len(values)] = made
            numbers += len(values)
            pause()
    except _FAULTS:
        return None
    return array if numbers == len(flat) else None


def _pieces_of_list(text: memoryview) -> Iterator[bytes]:
    """The list as lists of some of its numbers each. Raises: ValueError."""
    whole = bytes(text[:1]) + bytes(text[-1:])
    if whole != b"[]":
        raise ValueError(text)
    for piece, _ in _cut(text[1:-1]):
        if b"[" in piece or b"]" in piece:
            raise ValueError(text)
        yield b"[%b]" % piece


def _pieces_of_lists(text: memoryview, brackets: bytes) -> Iterator[bytes]:
    """The same of nested lists, whose brackets and commas are `brackets`. Raises: ValueError."""
    seen = 0
    for piece, is_last in _cut(text):
        outline = piece.translate(_AS_ZERO, _SPACE)
        # A number has no bracket beside it on the wrong side.
        if b"0[" in outline or b"]0" in outline:
            raise ValueError(text)
        outline = outline.translate(None, b"0") + (b"" if is_last else b",")
        if brackets[seen : seen + len(outline)] != outline:
            raise ValueError(text)
        seen += len(outline)
        yield b"[%b]" % piece.translate(_AS_SPACE)
    if seen != len(brackets):
        raise ValueError(text)


def _cut(text: memoryview) -> Iterator[tuple[bytes, bool]]:
    """The text in pieces, cut at commas, and which is the last. Raises: ValueError where none is for long."""
    at = 0
    while at + PIECE < len(text):
        piece = bytes(text[at : at + PIECE])
        stop = piece.rindex(b",")
        yield piece[:stop], False
        at += stop + 1
    yield bytes(text[at:]), True


@cache
def _plain_decoder(datatype: str) -> msgspec.json.Decoder[Any]:
    """Leaves it to FlatNumbers whether a number is within its datatype."""
    return msgspec.json.Decoder(list[float] if DATATYPES[datatype].kind == "float" else list[int])


def _converted(datatype: str, values: list[Any]) -> Array:
    if datatype == "BF16":
        return brain_float.from_float32(np.array(values, np.float32))
    return np.array(values, DATATYPES[datatype].dtype)


def _brackets(dims: Sequence[int]) -> bytes:
    """The brackets and commas of lists nested as `dims`."""
    text = b""
    for dim in reversed(dims):
        text = b"[%b]" % b",".join([text] * dim) if dim < 2 else b"[%b%b]" % ((text + b",") * (dim - 1), text)
    return text
