"""Tensors: the declared ones of a model and the actual ones of a request."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from guepard.core.datatypes import DATATYPES, Datatype

Array = NDArray[Any]


class TensorSpec:
    """What a model declares about one input or output. The public name of this class is `guepard.Tensor`.

    Shapes: `dims` leave the batch dimension out when the model batches; -1 is a free dimension.
    Raises: ValueError for an unknown datatype or a dimension below -1.
    """

    __slots__ = ("datatype", "dims", "free", "name", "optional", "plain")

    def __init__(self, name: str, datatype: str, dims: Sequence[int], optional: bool = False) -> None:
        if datatype not in DATATYPES:
            raise ValueError(f"tensor {name!r}: unknown datatype {datatype!r}; use one of {', '.join(DATATYPES)}")
        if any(not isinstance(dim, int) or dim < -1 for dim in dims):
            raise ValueError(f"tensor {name!r}: dims must be integers of -1 (free) or more, got {list(dims)}")
        self.name = name
        self.datatype: Datatype = DATATYPES[datatype]
        self.dims = tuple(dims)
        self.optional = optional
        self.free = -1 in self.dims
        self.plain = datatype not in ("BYTES", "BF16")  # numpy holds the values as they are

    def __repr__(self) -> str:
        tail = ", optional=True" if self.optional else ""
        return f"Tensor({self.name!r}, {self.datatype.name!r}, {list(self.dims)}{tail})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        mine = (self.name, self.datatype, self.dims, self.optional)
        return mine == (other.name, other.datatype, other.dims, other.optional)

    def __hash__(self) -> int:
        return hash((self.name, self.datatype.name, self.dims, self.optional))


class Tensor(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One named value on its way in. The array is a view on whoever's buffer it came from and is never written to."""

    name: str
    datatype: str
    array: Array


def empty_array(spec: TensorSpec, shape: Sequence[int]) -> Array:
    """A zero-valued array of `shape` that suits `spec`: zeros, false, or empty byte strings."""
    array = np.zeros(tuple(shape), spec.datatype.dtype)
    if spec.datatype.kind == "bytes":
        array.fill(b"")
    return array
