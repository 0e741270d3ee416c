"""One inference asked for by a program: the ResponseSender that its caller waits on."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress

from guepard.core.errors import GuepardError, Unsupported
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.core.tensor import Array
from guepard.embedding.loop_thread import SIGNAL_LATENCY_S


class Call:
    """Collects the answers of one request; when the last has come, `_wake` lets the caller go on."""

    __slots__ = ("_error", "_responses", "is_answered")

    def __init__(self) -> None:
        self.is_answered = False
        self._responses: list[InferenceResponse] = []
        self._error: GuepardError | None = None

    def send(self, request: InferenceRequest, response: InferenceResponse, final: bool) -> None:
        self._responses.append(response)
        if final:
            self.finish(request)

    def finish(self, request: InferenceRequest) -> None:
        self.is_answered = True
        self._wake()

    def fail(self, request: InferenceRequest, error: GuepardError) -> None:
        self._error = error
        self.finish(request)

    def outputs(self) -> Sequence[Array]:
        """The outputs in the order of the model's. Raises: GuepardError."""
        error = self._error
        if error is not None:
            # All requests of a batch share one error, and each caller writes a traceback of its own on what it raises.
            raise _copy(error) from error.__cause__
        if len(self._responses) != 1:
            raise Unsupported(f"the model gave {len(self._responses)} responses and infer() returns exactly one")
        return self._responses[0].outputs

    def _wake(self) -> None:
        raise NotImplementedError


def _copy(error: GuepardError) -> GuepardError:
    """Without calling the constructor: models derive errors of their own, with arguments of their own."""
    fresh = Exception.__new__(type(error), *error.args)
    fresh.__dict__.update(error.__dict__)
    return fresh


class BlockingCall(Call):
    """For a caller on a thread, which waits by taking a lock twice: the cheapest way that Python has."""

    __slots__ = ("_answered",)

    def __init__(self) -> None:
        super().__init__()
        self._answered = threading.Lock()
        self._answered.acquire()

    def wait(self) -> None:
        # A signal that comes just before the wait begins does not end it: Python sees to it when the wait does.
        while not self._answered.acquire(timeout=SIGNAL_LATENCY_S):
            pass

    def _wake(self) -> None:
        self._answered.release()


class AsyncCall(Call):
    """For a caller on an event loop of the program's own. To be made on that loop."""

    __slots__ = ("_answered", "_loop")

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._answered: asyncio.Future[None] = self._loop.create_future()

    async def wait(self) -> None:
        await self._answered

    def _wake(self) -> None:
        with suppress(RuntimeError):  # that loop has been closed, and its caller with it
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if not self._answered.done():
            self._answered.set_result(None)
