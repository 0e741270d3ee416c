"""Requests into the arrays of one batch."""

from collections.abc import Sequence

import numpy as np

from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array

_concatenate = np.concatenate


def gather(requests: Sequence[InferenceRequest]) -> Sequence[Array | None]:
    """Lay the inputs of `requests` end to end.

    Shapes: input i of a request is [rows, *dims]; the result's is [sum of rows, *dims]. Requests of one batch have
        equal `batch_key`s, so dims agree and the same optional inputs are absent (None).
    Ownership: the arrays of a lone request are returned as they are, to be read only.
    Cost: one memcpy per tensor.
    """
    first = requests[0].arrays
    if len(requests) == 1:
        return first
    if len(first) == 1:
        return (_concatenate([request.arrays[0] for request in requests]),)
    return [
        None if array is None else _concatenate([request.arrays[index] for request in requests])
        for index, array in enumerate(first)
    ]
