"""What a route leads to, and how an answer gets back onto the wire."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.server.http.coders import Coders
from guepard.server.http.request_head import RequestHead
from guepard.server.inference_exchange import InferenceExchange

Buffer = bytes | bytearray | memoryview
Body = Sequence[bytes | memoryview]


class Pieces:
    """The body of an answer that is too large to be made in one go. Each step takes about a millisecond at most."""

    def prepare(self) -> Iterator[None]:
        """What has to be known before the status line goes out. Raises: GuepardError."""
        return iter(())

    def headers(self) -> bytes:
        """Header lines that are known once it is prepared."""
        return b""

    def pieces(self) -> Iterator[bytes | memoryview]:
        """The body. Raises nothing: what could go wrong has been found by `prepare`."""
        raise NotImplementedError


class Work(Protocol):
    """What goes on beside the loop for one exchange, before its answer or while it is sent. `bytes_out` have left."""

    @property
    def bytes_out(self) -> int: ...

    def cancel(self) -> None:
        """The client has left."""
        ...

    def resume(self) -> None:
        """The client has read what was held back for it."""
        ...


class Exchange(InferenceExchange, Protocol):
    """One request that waits for its answer, which is given once. A connection plays this part.

    As the ResponseSender of an inference request it has the answer written by the endpoint.
    """

    def reply(self, status: int, headers: bytes, body: Body) -> None:
        """Write an answer. `headers` are whole lines, each ended by CRLF, without Content-Length."""
        ...

    def admit(self, size: int) -> None:
        """Count `size` bytes more among those that this exchange holds. Raises: Overloaded, PayloadTooLarge."""
        ...

    def wait_for(self, work: Work | None) -> None:
        """Name what goes on for this exchange, so that it hears of the client. None: it is done."""
        ...

    @property
    def decoders(self) -> Coders:
        """The threads on which long bodies are read."""
        ...

    def begin_anew(self, head: RequestHead, body: Buffer) -> None:
        """Take the request for one with this head and this body."""
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

    def write(
        self, head: RequestHead, request: InferenceRequest, response: InferenceResponse
    ) -> tuple[bytes, Body | Pieces]:
        """Headers and body of an inference response. Raises: GuepardError."""
        ...
