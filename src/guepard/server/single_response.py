"""The ResponseSender of a caller who takes exactly one response."""

from guepard.core.errors import GuepardError, Unsupported
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse


class SingleResponse:
    """What a model gives before its final response is collected until `finish` says that there is no more.

    `send` and `fail_with` are the front end's; `_carrier` is what it is to callers.
    """

    __slots__ = ("_responses",)

    _carrier: str

    def __init__(self) -> None:
        self._responses: list[InferenceResponse] = []

    def send(self, request: InferenceRequest, response: InferenceResponse, final: bool) -> None:
        raise NotImplementedError

    def fail_with(self, error: GuepardError) -> None:
        raise NotImplementedError

    def finish(self, request: InferenceRequest) -> None:
        responses, self._responses = self._responses, []
        count = len(responses)
        if count == 1:
            self.send(request, responses[0], final=True)
            return
        self.fail_with(Unsupported(f"the model gave {count} responses and this {self._carrier} carries exactly one"))

    def fail(self, request: InferenceRequest, error: GuepardError) -> None:
        self._responses.clear()
        self.fail_with(error)
