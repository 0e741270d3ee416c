"""One unary call that waits for its answer, and what such calls lead to. Nothing here knows a gRPC library."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from guepard.core.errors import GuepardError, InternalError
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.engine.taker import Taker
from guepard.server.single_response import SingleResponse

log = logging.getLogger(__name__)


class UnaryMethod(Protocol):
    """What answers the calls of one method. `path` is the full name, as the wire and metrics have it."""

    @property
    def path(self) -> str: ...

    def start(self, call: "UnaryCall", message: bytes) -> None:
        """Begin to answer. Raises: GuepardError, which becomes the answer."""
        ...

    def write(self, request: InferenceRequest, response: InferenceResponse) -> bytes:
        """The message that carries an inference response. Raises: GuepardError."""
        ...


class UnaryCall(SingleResponse):
    """Answered once, by a message or an error. The ResponseSender of its inference request, if it has one.

    `hold` counts bytes, as InferenceExchange has it, until the call is over. `timeout_ns` is what is left of the
    caller's deadline, 0 without one; `metadata` has lower-case keys; `started` is when the message had come, in
    nanoseconds of the monotonic clock.
    """

    __slots__ = (
        "_method",
        "_taker",
        "_waiter",
        "error",
        "hold",
        "message",
        "metadata",
        "model",
        "request",
        "started",
        "timeout_ns",
        "version",
    )

    _carrier = "call"

    def __init__(
        self,
        method: UnaryMethod,
        metadata: Mapping[str, str],
        timeout_ns: int,
        started: int,
        hold: Callable[[int], None],
    ) -> None:
        super().__init__()
        self._method = method
        self.hold = hold
        self.metadata = metadata
        self.timeout_ns = timeout_ns
        self.started = started
        self.model: str | None = None  # whom the message names, for the log
        self.version: str | None = None
        self.request: InferenceRequest | None = None
        self.message: bytes | None = None
        self.error: GuepardError | None = None
        self._taker: Taker
        self._waiter: asyncio.Future[None] | None = None

    def begin(self, message: bytes) -> None:
        """Hand `message` to the method. Whatever that raises becomes the answer."""
        try:
            self._method.start(self, message)
        except GuepardError as error:
            self.fail_with(error)
        except Exception:
            log.exception("a call of %s could not be served", self._method.path)
            self.fail_with(InternalError("the call could not be served; the server's log says why"))

    @property
    def is_answered(self) -> bool:
        return self.message is not None or self.error is not None

    async def answered(self) -> None:
        """Wait for the answer. To be awaited once."""
        if not self.is_answered:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def cancel(self) -> None:
        """The caller has gone: an inference request that runs for it is given up."""
        if self.request is not None and not self.is_answered:
            self._taker.cancel(self.request)

    def release(self) -> InferenceRequest | None:
        """Let go of what refers back to this call, and so would keep the message until the collector comes by."""
        request, self.request, self.error = self.request, None, None
        return request

    # Answers

    def reply(self, message: bytes) -> None:
        self.message = message
        self._wake()

    def fail_with(self, error: GuepardError) -> None:
        self.error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ResponseSender

    def infer_with(self, request: InferenceRequest, taker: Taker) -> None:
        """Name the inference request whose answer this call waits for, and who cancels it if the caller leaves."""
        self.request = request
        self._taker = taker

    def send(self, request: InferenceRequest, response: InferenceResponse, final: bool) -> None:
        if not final:
            self._responses.append(response)
            return
        try:
            self.reply(self._method.write(request, response))
        except GuepardError as error:
            self.fail_with(error)
        except Exception:
            log.exception("an answer of %s could not be written", self._method.path)
            self.fail_with(InternalError("the answer could not be written; the server's log says why"))
