"""The side of the engine that front ends hold on to while a request is inside."""

from typing import Protocol

from guepard.core.request import InferenceRequest


class Taker(Protocol):
    """Whoever has taken an inference request in."""

    def cancel(self, request: InferenceRequest) -> None:
        """Nobody waits for the answer to `request` any more."""
        ...
