"""In which precision the weights of an ONNX model are written: that of most of their numbers.

Source: onnx.proto (TensorProto.DataType and field numbers).
"""

import math
import mmap
from collections import Counter
from pathlib import Path

from guepard.backends.protobuf_fields import Buffer, fields, numbers
from guepard.core.engine_options import Precision
from guepard.core.errors import LoadError

_GRAPH, _NODE, _INITIALIZER = 7, 1, 5
_ATTRIBUTE, _TENSOR = 5, 5
_DIMS, _DATA_TYPE = 1, 2
_PRECISIONS: dict[int, Precision] = {1: "f32", 10: "f16", 16: "bf16"}


def weights_precision(model: Path) -> Precision:
    """f32 for models without such weights. Raises: LoadError when it is no well-formed model.

    Cost: proportional to the number of nodes and weights, not to their size.
    """
    try:
        with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return precision_of(data)
    except (OSError, ValueError):
        raise LoadError(f"{model.name} is not a valid ONNX model: the file is damaged or of another format") from None


def precision_of(data: Buffer) -> Precision:
    """As `weights_precision`, of a serialised ModelProto. Raises: ValueError."""
    sizes: Counter[Precision] = Counter()
    for number, start, end in fields(data, 0, len(data)):
        if number == _GRAPH:
            for inner, first, last in fields(data, start, end):
                if inner == _INITIALIZER:
                    _count(data, first, last, sizes)
                elif inner == _NODE:  # constants that were not made initializers
                    for tensor in _constants(data, first, last):
                        _count(data, *tensor, sizes)
    return max(sizes, key=sizes.__getitem__) if sizes else "f32"


def _constants(data: Buffer, start: int, end: int) -> list[tuple[int, int]]:
    return [
        (low, high)
        for number, first, last in fields(data, start, end)
        if number == _ATTRIBUTE
        for inner, low, high in fields(data, first, last)
        if inner == _TENSOR
    ]


def _count(data: Buffer, start: int, end: int, sizes: Counter[Precision]) -> None:
    precision = _PRECISIONS.get(next(numbers(data, start, end, _DATA_TYPE), 0))
    if precision is not None:
        sizes[precision] += math.prod(numbers(data, start, end, _DIMS))
