"""Tensors of every datatype and shape, drawn by hypothesis, and their bytes on the wire."""

import struct

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from guepard.core.datatypes import DATATYPES
from guepard.core.tensor import Array

FLOATS = ("FP16", "FP32", "FP64", "BF16")

# One server and one connection serve all examples of a test.
examples = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def wire_bytes(datatype: str, array: Array) -> bytes:
    if datatype != "BYTES":
        return array.tobytes()
    return b"".join(struct.pack("<I", len(element)) + element for element in array.ravel().tolist())


def shapes(rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(0, 3)] * rank)


def array_of(datatype: str, shape: tuple[int, ...], *, plain: bool) -> st.SearchStrategy[Array]:
    """Any array at all, or for `plain` one that JSON can carry, too."""
    if datatype == "BYTES":
        text = st.text(max_size=8).map(str.encode)
        return arrays.arrays(np.dtype(object), shape, elements=text if plain else st.binary(max_size=8) | text)
    dtype = DATATYPES[datatype].dtype
    if datatype == "BF16":
        patterns = st.integers(0, 2**16 - 1)
        finite = patterns.filter(lambda bits: bits & 0x7F80 != 0x7F80)
        return arrays.arrays(dtype, shape, elements=finite if plain else patterns)
    if datatype in FLOATS and plain:
        return arrays.arrays(dtype, shape, elements={"allow_nan": False, "allow_infinity": False})
    return arrays.arrays(dtype, shape)
