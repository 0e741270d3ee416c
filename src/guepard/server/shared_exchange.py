"""One inference whose tensors lie in shared memory: the exchange around the copies, of which large ones run beside the
loop."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any
from weakref import WeakKeyDictionary

from guepard.core.errors import Cancelled, GuepardError, InternalError
from guepard.core.regions import Regions
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.engine.background import in_thread
from guepard.engine.served_model import ServedModel
from guepard.protocols.shared_tensors import SharedTensors
from guepard.server.inference_exchange import InferenceExchange

log = logging.getLogger(__name__)

_ON_LOOP_BYTES = 4 << 20  # about 1 ms, at most 2 (ADR 0010)
_THREAD = "shared-memory"
_AT_ONCE = 4  # a copy goes on when its caller has left and given its bytes back, so few may be under way

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_tasks: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly


class SharedExchange:
    """Stands between an exchange and the engine: the request's ResponseSender and, while it is read, its Taker.

    `served` gives whoever serves the model now.
    """

    def __init__(
        self,
        exchange: InferenceExchange,
        request: InferenceRequest,
        regions: Regions,
        served: Callable[[], ServedModel],
    ) -> None:
        self._exchange = exchange
        self._request = request
        self._regions = regions
        self._served = served
        self._shared: SharedTensors = request.reply_format.shared
        self._has_left = False

    def start(self) -> None:
        """Collect the inputs, then have the request executed. Raises: GuepardError, which becomes the answer."""
        request, shared = self._request, self._shared
        try:
            shared.check(self._regions)
            self._exchange.hold(shared.input_bytes)
            if shared.input_bytes > _ON_LOOP_BYTES:
                self._exchange.infer_with(request, self)
                _spawn(self._read())
                return
            if shared.inputs:
                request.tensors = shared.collect(self._regions)
        except GuepardError as error:
            self._served().refuse(request, error)
        else:
            self._execute()

    async def _read(self) -> None:
        request = self._request
        try:
            try:
                async with _slot():
                    self._refuse_the_absent()
                    request.tensors = await in_thread(_THREAD, lambda: self._shared.collect(self._regions))
                self._refuse_the_absent()
            except GuepardError as error:
                self._served().refuse(request, error)
            else:
                self._execute()
        except GuepardError as error:  # the model has gone meanwhile
            self._exchange.fail_with(error)
        except Exception:
            log.exception("shared memory could not be read")
            self._exchange.fail_with(InternalError("shared memory could not be read; the server's log says why"))

    def _refuse_the_absent(self) -> None:
        if self._has_left:
            raise Cancelled("the client went away")

    def _execute(self) -> None:
        served = self._served()
        self._request.sender = self
        self._exchange.infer_with(self._request, served)
        served.infer(self._request)

    # Taker

    def cancel(self, request: InferenceRequest) -> None:
        self._has_left = True

    # ResponseSender

    def send(self, request: InferenceRequest, response: InferenceResponse, final: bool) -> None:
        if final and self._shared.output_bytes > _ON_LOOP_BYTES:
            _spawn(self._write(response))
        else:
            self._exchange.send(request, response, final)

    async def _write(self, response: InferenceResponse) -> None:
        request, shared = self._request, self._shared
        outputs = response.chosen(request.requested_outputs)
        try:
            async with _slot():
                echoes = await in_thread(_THREAD, lambda: shared.written(outputs, self._regions))
        except GuepardError as error:
            self._exchange.fail(request, error)
        except Exception:
            log.exception("shared memory could not be written")
            text = "shared memory could not be written; the server's log says why"
            self._exchange.fail(request, InternalError(text))
        else:
            request.reply_format = request.reply_format._replace(shared=shared._replace(echoes=echoes))
            self._exchange.send(request, response, final=True)

    def finish(self, request: InferenceRequest) -> None:
        self._exchange.finish(request)

    def fail(self, request: InferenceRequest, error: GuepardError) -> None:
        self._exchange.fail(request, error)


def _slot() -> asyncio.Semaphore:
    return _slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_AT_ONCE))


def _spawn(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
