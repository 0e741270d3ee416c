"""Requests as the data plane hands them on, and a sender that remembers what it was told."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from guepard.core.errors import GuepardError
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.core.tensor import Tensor

NEVER = 2**63


class RecordedSender:
    """Every answer of one request, in order. Anything after the end fails the test at once."""

    def __init__(self) -> None:
        self.responses: list[InferenceResponse] = []
        self.error: GuepardError | None = None
        self.ends = 0

    @property
    def values(self) -> list[float]:
        """The first output of the only response, flat."""
        (response,) = self.responses
        return list(response.outputs[0].reshape(-1).tolist())

    def send(self, request: InferenceRequest, response: InferenceResponse, final: bool) -> None:
        assert not self.ends, "an answer after the end"
        self.responses.append(response)
        self.ends += final

    def finish(self, request: InferenceRequest) -> None:
        assert not self.ends, "an end after the end"
        self.ends += 1

    def fail(self, request: InferenceRequest, error: GuepardError) -> None:
        assert not self.ends, "an error after the end"
        self.error = error
        self.ends += 1


def arriving(
    rows: int = 1,
    *,
    key: object = None,
    value: float = 0.0,
    start: int = 0,
    parameters: Mapping[str, Any] | None = None,
) -> InferenceRequest:
    """A request of `rows` rows that hold `value`, `value` + 1, …; its input is FP32 [rows, 1]."""
    array = (np.arange(rows, dtype=np.float32) + np.float32(value)).reshape(rows, 1)
    request = InferenceRequest([Tensor("x", "FP32", array)], RecordedSender(), start)
    request.arrays = (array,)
    request.rows = rows
    request.batch_key = key
    request.deadline = NEVER
    if parameters is not None:
        request.parameters = parameters
    return request


def sender_of(request: InferenceRequest) -> RecordedSender:
    assert isinstance(request.sender, RecordedSender)
    return request.sender
