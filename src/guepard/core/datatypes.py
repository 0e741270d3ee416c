"""The datatypes of the Open Inference Protocol and how numpy holds each of them.

BF16 has no numpy type; its arrays are `uint16` bit patterns, and the datatype's name, never the dtype, tells the two
apart. BYTES arrays are object arrays whose elements are `bytes`.
Source: Open Inference Protocol, "Tensor Data Types"; Triton adds BF16.
"""

from typing import Literal, NamedTuple

import numpy as np

Kind = Literal["bool", "int", "float", "bytes"]


class Datatype(NamedTuple):
    """One wire datatype. `size` is in bytes per element, 0 for BYTES, whose elements carry their own length."""

    name: str
    dtype: np.dtype
    size: int
    kind: Kind


def _fixed(name: str, code: str, kind: Kind) -> Datatype:
    dtype = np.dtype(code)
    return Datatype(name, dtype, dtype.itemsize, kind)


DATATYPES: dict[str, Datatype] = {
    entry.name: entry
    for entry in (
        _fixed("BOOL", "?", "bool"),
        _fixed("UINT8", "<u1", "int"),
        _fixed("UINT16", "<u2", "int"),
        _fixed("UINT32", "<u4", "int"),
        _fixed("UINT64", "<u8", "int"),
        _fixed("INT8", "<i1", "int"),
        _fixed("INT16", "<i2", "int"),
        _fixed("INT32", "<i4", "int"),
        _fixed("INT64", "<i8", "int"),
        _fixed("FP16", "<f2", "float"),
        _fixed("FP32", "<f4", "float"),
        _fixed("FP64", "<f8", "float"),
        _fixed("BF16", "<u2", "float"),
        Datatype("BYTES", np.dtype(object), 0, "bytes"),
    )
}

_BY_DTYPE: dict[np.dtype, Datatype] = {
    entry.dtype: entry for entry in DATATYPES.values() if entry.name not in ("BF16", "BYTES")
}


def datatype_of(dtype: np.dtype) -> Datatype | None:
    """The wire datatype that a numpy array of `dtype` has by itself, or None when numpy alone cannot say."""
    if dtype.kind in "OSU":
        return DATATYPES["BYTES"]
    return _BY_DTYPE.get(dtype.newbyteorder("<"))
