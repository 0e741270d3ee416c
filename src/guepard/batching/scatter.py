"""The arrays of one batch back into each request's own rows: the only loop over the answers of a batch."""

from collections.abc import Iterator, Sequence

from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array


def scatter(
    requests: Sequence[InferenceRequest], outputs: Sequence[Array]
) -> Iterator[tuple[InferenceRequest, Sequence[Array]]]:
    """Each request with its rows of every output, as views.

    Shapes: output i is [sum of rows, *dims]; request r gets the rows that `gather` laid there for it.
    """
    if len(requests) == 1:
        yield requests[0], outputs
        return
    start = 0
    if len(outputs) == 1:
        (output,) = outputs
        for request in requests:
            end = start + request.rows
            yield request, (output[start:end],)
            start = end
        return
    for request in requests:
        end = start + request.rows
        yield request, [output[start:end] for output in outputs]
        start = end
