"""Requests into the arrays of one batch."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from guepard.core.buffers import BufferPool
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array

_concatenate = np.concatenate


def gather(
    requests: Sequence[InferenceRequest], buffers: BufferPool | None = None, pooled_from: int = 0
) -> Sequence[Array | None]:
    """Lay the inputs of `requests` end to end, those of about `pooled_from` bytes or more in a lease from `buffers`.

    Shapes: input i of a request is [rows, *dims]; the result's is [sum of rows, *dims]. Requests of one batch have
        equal `batch_key`s, so dims agree and the same optional inputs are absent (None).
    Ownership: the arrays of a lone request are returned as they are, to be read only.
    Cost: one memcpy per tensor.
    """
    first = requests[0].arrays
    if len(requests) == 1:
        return first
    if len(first) == 1:
        arrays = [request.arrays[0] for request in requests]
        if buffers is None or first[0].nbytes * len(arrays) < pooled_from:  # type: ignore[union-attr]
            return (_concatenate(arrays),)  # type: ignore[arg-type]
    elif buffers is None:
        return [
            None if array is None else _concatenate([request.arrays[index] for request in requests])
            for index, array in enumerate(first)
        ]
    return [
        None if array is None else _gather_into(buffers, pooled_from, array, [r.arrays[index] for r in requests])
        for index, array in enumerate(first)
    ]


def _gather_into(buffers: BufferPool, pooled_from: int, first: Array, arrays: Sequence[Any]) -> Array:
    if first.nbytes * len(arrays) < pooled_from or first.dtype.hasobject:
        return _concatenate(arrays)
    rows = sum([array.shape[0] for array in arrays])
    lease = buffers.lease(sum([array.nbytes for array in arrays]))
    batch: Array = np.ndarray((rows, *first.shape[1:]), first.dtype, lease)
    return _concatenate(arrays, out=batch)
