"""Random values that models can take, the same for the same seed."""

import re
from collections.abc import Sequence

import numpy as np

from guepard.core.datatypes import DATATYPES
from guepard.core.tensor import Array, Tensor
from guepard.protocols import brain_float

DIGITS = 7
"""The first FP32 or FP64 has so many decimals: FP32 tells all of them apart."""
MARK_DIGITS = 8
"""The first text begins with so many digits, a number of its own."""
SMALL_COUNT = 8
"""The first so many integers are below 10, the first so many FP16 and BF16 tenths."""

_INTEGERS = 100
_FIXED = re.compile("mask|type_id|segment", re.IGNORECASE)
_WORDS = np.array(
    [
        word.encode()
        for word in (
            "amber", "basin", "cedar", "delta", "ember", "field", "grain", "harbor", "island", "jungle", "kettle",
            "ladder", "marble", "needle", "ocean", "pepper", "quartz", "river", "saddle", "timber", "umbra", "valley",
            "willow", "yellow", "zephyr", "anchor", "bridge", "candle", "desert", "engine", "forest", "garden",
        )
    ],
    object,
)  # fmt: skip


def random_tensor(random: np.random.Generator, name: str, datatype: str, shape: Sequence[int], number: int) -> Tensor:
    """Values in ranges that most models take, for the payload with this number.

    Floats are in [0, 1), UINT8 fills its range (pixels), other integers are below 100 (indexes into tables). Masks
    (`mask` in the name) are ones and segments (`type_id`, `segment`) zeros. Texts are three words. The first elements
    are such that a number which no other request has can be written into them: see `unique_spots`.
    """
    entry = DATATYPES[datatype]
    if entry.kind == "bytes":
        array = _texts(random, shape, number)
    elif entry.kind == "float":
        array = _floats(random, datatype, shape)
    elif entry.kind == "bool":
        array = random.integers(0, 2, shape).astype(entry.dtype)
    else:
        low, high = _range(name, datatype)
        array = random.integers(low, high, shape).astype(entry.dtype)
        if is_free(name):
            array.reshape(-1)[:SMALL_COUNT] %= 10
    return Tensor(name, datatype, array)


def random_words(random: np.random.Generator, count: int) -> str:
    return b" ".join(_WORDS[random.integers(0, len(_WORDS), count)].tolist()).decode()


def is_free(name: str) -> bool:
    """Whether integers of this input may have any value: masks and segments may not."""
    return not _FIXED.search(name)


def _range(name: str, datatype: str) -> tuple[int, int]:
    if fixed := _FIXED.search(name):
        return (1, 2) if fixed[0].lower() == "mask" else (0, 1)
    return (0, 256) if datatype == "UINT8" else (0, _INTEGERS)


def _floats(random: np.random.Generator, datatype: str, shape: Sequence[int]) -> Array:
    """FP16 and BF16 get values that they hold exactly, lest rounding makes a 1 of them, but for the first ones."""
    if datatype in ("FP16", "BF16"):
        steps = 2_048 if datatype == "FP16" else 256
        small: Array = (random.integers(0, steps, tuple(shape)) / steps).astype(np.float32)
        flat = small.reshape(-1)[:SMALL_COUNT]
        flat[:] = random.integers(0, 10, flat.shape) / 10
        return brain_float.from_float32(small) if datatype == "BF16" else small.astype(np.float16)
    array: Array = random.random(tuple(shape), DATATYPES[datatype].dtype)
    if array.size:
        scale = 10**DIGITS
        array.reshape(-1)[0] = random.integers(0, scale) / scale  # the one whose text may be rewritten
    return array


def _texts(random: np.random.Generator, shape: Sequence[int], number: int) -> Array:
    array = np.empty(tuple(shape), object)
    count = array.size
    words = _WORDS[random.integers(0, len(_WORDS), (count, 3))]
    flat = [b" ".join(three) for three in words.tolist()]
    if flat:
        flat[0] = b"%0*d %b" % (MARK_DIGITS, number, flat[0])
    array.reshape(-1)[:] = flat
    return array
