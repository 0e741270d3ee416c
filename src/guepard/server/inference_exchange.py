"""Whoever waits for the answer to one inference request, whichever front end it came by."""

from typing import Protocol

from guepard.core.errors import GuepardError, PayloadTooLarge
from guepard.core.request import InferenceRequest
from guepard.core.response import ResponseSender
from guepard.engine.taker import Taker


class InferenceExchange(ResponseSender, Protocol):
    def infer_with(self, request: InferenceRequest, taker: Taker) -> None:
        """Name the inference request whose answer this exchange waits for, and who cancels it if the caller leaves."""
        ...

    def hold(self, size: int) -> None:
        """Count `size` bytes that a request names beside its message: together they are bounded as a message is.

        Raises: Overloaded, PayloadTooLarge.
        """
        ...

    def fail_with(self, error: GuepardError) -> None:
        """The answer is `error`, without the engine having been asked."""
        ...


def refuse_beyond(limit: int, size: int) -> None:
    """Raises: PayloadTooLarge when a request and what it names have more than `limit` bytes."""
    if size > limit:
        raise PayloadTooLarge(
            f"the request and its shared memory have {size} bytes, more than {limit} (max_request_bytes)"
        )
