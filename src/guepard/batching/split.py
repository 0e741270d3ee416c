"""Requests larger than a batch: cut into parts that fit, and the parts' answers joined again in order."""

from collections.abc import Callable, Sequence

import numpy as np

from guepard.core.errors import GuepardError, ModelError
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.response import InferenceResponse
from guepard.core.tensor import Array

Fail = Callable[[InferenceRequest, GuepardError], None]


def split(request: InferenceRequest, max_rows: int, fail: Fail) -> list[InferenceRequest]:
    """Parts of at most `max_rows` rows, whose answers reach the request's sender as one.

    The first failure among the parts is the request's answer; what becomes of the other parts is up to the owner of
    the queue. `fail` ends the request when its parts went well and their answers cannot be joined.
    Ownership: parts view the request's arrays.
    """
    joiner = _Joiner(request, fail)
    for start in range(0, request.rows, max_rows):
        part = InferenceRequest(request.tensors, joiner, request.request_start)
        part.arrays = [None if array is None else array[start : start + max_rows] for array in request.arrays]
        part.rows = min(max_rows, request.rows - start)
        part.batch_key = request.batch_key
        part.deadline = request.deadline
        part.id = request.id
        part.parameters = request.parameters
        part.requested_outputs = request.requested_outputs
        part.priority = request.priority
        part.whole = request
        joiner.parts.append(part)
    return joiner.parts


class _Joiner:
    """Collects the answers of the parts. A ResponseSender."""

    def __init__(self, request: InferenceRequest, fail: Fail) -> None:
        self.parts: list[InferenceRequest] = []
        self._request = request
        self._fail = fail
        self._answers: dict[int, Sequence[Array]] = {}

    def send(self, request: InferenceRequest, response: InferenceResponse, final: bool) -> None:
        whole = self._request
        if whole.is_released:
            return
        self._answers[id(request)] = response.outputs
        if len(self._answers) < len(self.parts):
            return
        columns = zip(*[self._answers[id(part)] for part in self.parts], strict=True)
        try:
            outputs = [np.concatenate(column) for column in columns]
        except ValueError:
            limit = response.config.max_batch_size
            reason = (
                f"the request was split into batches of {limit} rows, whose answers differ in shape; send fewer rows"
            )
            self._fail(whole, ModelError(reason))
            return
        whole.state = RequestState.RELEASED
        whole.stamps = request.stamps
        whole.sender.send(whole, InferenceResponse(response.config, outputs, response.parameters), final)

    def finish(self, request: InferenceRequest) -> None:
        """Only decoupled models finish without a final response, and those are never split."""

    def fail(self, request: InferenceRequest, error: GuepardError) -> None:
        whole = self._request
        if not whole.is_released:
            whole.state = RequestState.RELEASED
            whole.sender.fail(whole, error)
