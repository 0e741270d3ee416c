"""Requests of different lengths into the arrays of one batch, and its answers back to each request's own length.

rows of request a, length 2   │ 7 7 0 0 │        the rest of a row is filled with the input's padding value,
rows of request b, length 4   │ 5 5 5 5 │        at the end, so that places keep their numbers
"""

from collections.abc import Iterator, Sequence

import numpy as np

from guepard.batching.gather import gather
from guepard.batching.scatter import scatter
from guepard.core.padding import CutOutput, PaddedInput, Padding
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array


def padded_length(requests: Sequence[InferenceRequest], padding: Padding) -> int:
    """How long the batch of `requests` is."""
    return padding.padded_length(max([request.length for request in requests]))


def token_counts(requests: Sequence[InferenceRequest], padding: Padding) -> tuple[int, int]:
    """The tokens of the requests themselves, and those of padding that an execution of them takes on."""
    own = sum([request.rows * request.length for request in requests])
    rows = sum([request.rows for request in requests])
    return own, rows * padded_length(requests, padding) - own


def gather_padded(requests: Sequence[InferenceRequest], padding: Padding) -> Sequence[Array | None]:
    """As `gather`, with the padded inputs of every request brought to the length of the batch.

    Shapes: of a padded input [rows, *dims], where dims differ between requests in the padded axis alone.
    Ownership: where nothing is to be padded, as `gather` has it.
    Cost: one memcpy per request and tensor, and one fill of the rest.
    """
    length = padded_length(requests, padding)
    if min([request.length for request in requests]) == length:
        return gather(requests)
    padded = {each.place: each for each in padding.inputs}
    arrays: list[Array | None] = []
    for index, array in enumerate(requests[0].arrays):
        if array is None:
            arrays.append(None)
        elif index in padded:
            arrays.append(_lay(requests, padded[index], length))
        elif len(requests) == 1:
            arrays.append(array)
        else:
            arrays.append(np.concatenate([request.arrays[index] for request in requests]))
    return arrays


def _lay(requests: Sequence[InferenceRequest], padded: PaddedInput, length: int) -> Array:
    _, index, axis, value = padded
    model = requests[0].arrays[index]
    assert model is not None
    shape = list(model.shape)
    shape[0] = sum([request.rows for request in requests])
    shape[axis] = length
    whole: Array = np.empty(shape, model.dtype)
    # With the padded axis second, the place of a request is two slices whatever the axis is.
    seen = whole if axis == 1 else np.moveaxis(whole, axis, 1)
    start = 0
    for request in requests:
        end = start + request.rows
        array = request.arrays[index]
        assert array is not None
        seen[start:end, : request.length] = array if axis == 1 else np.moveaxis(array, axis, 1)
        seen[start:end, request.length :] = value
        start = end
    return whole


def scatter_padded(
    requests: Sequence[InferenceRequest], outputs: Sequence[Array], padding: Padding
) -> Iterator[tuple[InferenceRequest, Sequence[Array]]]:
    """As `scatter`, with the outputs that are as long as the inputs cut to the request's own length. Views."""
    cuts = padding.outputs
    if not cuts:
        yield from scatter(requests, outputs)
        return
    for request, own in scatter(requests, outputs):
        answer = list(own)
        for _, index, axis in cuts:
            answer[index] = answer[index][(slice(None),) * axis + (slice(request.length),)]
        yield request, answer


def wrong_length(
    requests: Sequence[InferenceRequest], outputs: Sequence[Array], padding: Padding
) -> tuple[CutOutput, int] | None:
    """The first output that is to be cut and is not as long as the batch, and how long the batch is."""
    if not padding.outputs:
        return None
    length = padded_length(requests, padding)
    for cut in padding.outputs:
        shape = outputs[cut.place].shape
        if len(shape) <= cut.axis or shape[cut.axis] != length:
            return cut, length
    return None
