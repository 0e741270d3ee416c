"""What a route leads to, and how an answer gets back onto the wire."""

from collections.abc import Sequence
from typing import Protocol

from guepard.core.errors import GuepardError
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse, ResponseSender
from guepard.engine.taker import Taker
from guepard.server.http.request_head import RequestHead

Buffer = bytes | bytearray | memoryview
Body = Sequence[bytes | memoryview]


class Exchange(ResponseSender, Protocol):
    """One request that waits for its answer, which is given once. A connection plays this part.

    As the ResponseSender of an inference request it has the answer written by the endpoint.
    """

    def reply(self, status: int, headers: bytes, body: Body) -> None:
        """Write an answer. `headers` are whole lines, each ended by CRLF, without Content-Length."""
        ...

    def fail_with(self, error: GuepardError) -> None: ...

    def infer_with(self, request: InferenceRequest, taker: Taker) -> None:
        """Name the inference request whose answer this exchange waits for, and who cancels it if the client leaves."""
        ...


class Endpoint(Protocol):
    """What answers the requests of one route. `label` is the route's template, as metrics show it."""

    @property
    def label(self) -> str: ...

    def check(self, head: RequestHead) -> None:
        """Look at the head before the body is read, and leave in `head.note` what the answer will need.

        Raises: GuepardError, which becomes the answer.
        """
        ...

    def start(self, exchange: Exchange, head: RequestHead, body: Buffer, started: int) -> None:
        """Begin to answer. Raises: GuepardError, which becomes the answer."""
        ...

    def write(self, head: RequestHead, request: InferenceRequest, response: InferenceResponse) -> tuple[bytes, Body]:
        """Headers and body of an inference response. Raises: GuepardError."""
        ...
