"""Where one tensor's bytes will lie, worked out before they come: for all forms in which tensors travel as bytes."""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from guepard.core.datatypes import DATATYPES


class TensorSlot(NamedTuple):
    """`size` in bytes. `dtype` None: the bytes have to be looked at, not only viewed."""

    name: str
    datatype: str
    shape: list[int]
    size: int
    dtype: np.dtype[Any] | None


def tensor_slot(name: str, datatype: str, shape: list[int], size: int | None = None) -> TensorSlot:
    """`size` as the request says it; None for what datatype and shape need, which for BYTES is not known."""
    entry = DATATYPES[datatype]
    needed = prod(shape) * entry.size
    size = needed if size is None else size
    viewable = entry.kind not in ("bytes", "bool") and size == needed and size > 0
    return TensorSlot(name, datatype, shape, size, entry.dtype if viewable else None)
