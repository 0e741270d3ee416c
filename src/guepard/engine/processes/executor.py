"""Runs batches in a process of its own, and gets a new one when that is lost. To the engine it is any executor."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from weakref import finalize

import numpy as np

from guepard.backends.base import Inputs, ModelSource, Outputs
from guepard.core.errors import (
    Cancelled,
    ErrorCode,
    GuepardError,
    InputError,
    InstanceLost,
    LoadError,
    ModelError,
    Unsupported,
)
from guepard.core.model_config import SECOND, ModelDescription
from guepard.core.reasons import LossReason
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY
from guepard.core.tensor import Array
from guepard.engine.patience import LEAST_NS, Patience
from guepard.engine.processes.carrier import Carrier, view_array
from guepard.engine.processes.log_bridge import remote_error
from guepard.engine.processes.worker_process import WorkerProcess
from guepard.memory.shared_arena import SharedView
from guepard.memory.slab_pool import SlabPool
from guepard.transport.channel import BadFrame, ChannelClosed, LeftUnread
from guepard.transport.frames import End, Execute, Failed, FromWorker, Item, More, Place, RequestNote, Result, Stop

log = logging.getLogger(__name__)

INPUT_LIMIT_BYTES = 2**30
"""Of inputs in shared memory; what is beyond travels through the socket."""

_HELD_LIMIT_BYTES = 2**26
"""Of outputs that callers still look at in the process's memory; beyond, outputs are copied, so that a slow client
never keeps an instance from its memory."""

_WARMUP_TIMEOUT_NS = 60 * SECOND  # nobody waits, and what it takes is yet to be learned

_ERRORS: dict[str, type[GuepardError]] = {
    ErrorCode.MODEL_ERROR.value: ModelError,
    ErrorCode.UNSUPPORTED.value: Unsupported,
    ErrorCode.CANCELLED.value: Cancelled,
}


class _NeverBegun(InstanceLost):
    """The process was lost before it had read the batch whole, so that another one may have it."""


class ProcessExecutor:
    """An executor whose model lives in a process.

    When the process is lost, whoever waits gets InstanceLost, and the next execution begins with a new process; `mend`
    brings that about beforehand. `on_loss` is called on another thread when a process was lost, at work or idle.

    Raises: LoadError when the first process cannot load the model.
    """

    def __init__(
        self,
        source: ModelSource,
        backend: str,
        timeout_ns: int,
        memory_limit_bytes: int,
    ) -> None:
        self.on_loss: Callable[[], None] = _nothing
        self.losses: dict[LossReason, int] = dict.fromkeys(LossReason, 0)
        self._source = source
        self._backend = backend
        self._timeout_ns = timeout_ns
        self._memory_limit_bytes = memory_limit_bytes
        self._patience = Patience()
        self._is_closed = False
        self._starting: WorkerProcess | None = None
        self._begin()
        self.description: ModelDescription = self._worker.description
        self._takes_notes = self.description.backend == "python"
        self._number = 0  # of the batch that was sent last
        self._inputs = [spec.datatype.name for spec in self.description.inputs]
        self._outputs = [spec.datatype.name for spec in self.description.outputs]

    def _begin(self) -> None:
        worker = WorkerProcess(self._source, self._backend, self._memory_limit_bytes, self._lost)
        self._starting = worker
        try:
            if self._is_closed:  # while it was being started
                worker.abandon()
            worker.load()
        finally:
            self._starting = None
        self._worker = worker
        self._source = replace(self._source, again=True)
        self.buffers = SlabPool(self._worker.inputs, limit_bytes=INPUT_LIMIT_BYTES)
        self._carrier = Carrier(self._worker.inputs, self.buffers)
        self._view = SharedView(self._worker.outputs.descriptor)
        self._returned: deque[tuple[int, int]] = deque()
        self._held_bytes = 0

    @property
    def is_lost(self) -> bool:
        """Whether the process was given up, or is to be replaced."""
        return self._worker.is_lost

    @property
    def fate(self) -> str:
        """What became of the process that was lost."""
        return self._worker.fate

    @property
    def pid(self) -> int:
        return self._worker.pid

    @property
    def memory_bytes(self) -> int:
        """What the process has of its own, as last seen."""
        return self._worker.memory_bytes

    def mend(self) -> None:
        """Put a new process in the place of one that was lost. Raises: LoadError when it cannot load the model."""
        if self._worker.is_lost and not self._is_closed:
            self._worker.end()
            self.buffers.close()
            self._begin()

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        try:
            return self._run(inputs, requests)
        except _NeverBegun:  # the process was lost while it was idle, and nobody had noticed
            return self._run(inputs, requests)

    def _run(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        leases = self._send(inputs, requests, is_stream=False)
        answer = self._receive()
        leases.clear()
        if not isinstance(answer, Result):
            raise self._garbled(f"{type(answer).__name__} for the result of a batch")
        return self._views(answer)

    def execute_stream(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Iterator[Outputs]:
        leases = self._send(inputs, requests, is_stream=True)
        ended = False
        try:
            while True:
                answer = self._receive()
                if isinstance(answer, End):
                    ended = True
                    return
                if not isinstance(answer, Item):
                    raise self._garbled(f"{type(answer).__name__} for an item of a stream")
                yield self._copies(answer)
                self._watch(requests, leases)
                self._tell(More())
        except GuepardError:
            ended = True
            raise
        finally:
            if not ended:
                self._watch(requests, leases)
                self._end_stream()

    def terminate(self) -> None:
        """Not here: whoever watches the process tells it, at the next look."""

    def health(self) -> None:
        self._worker.health()

    def trim(self) -> None:
        self._worker.trim()

    def abandon(self) -> None:
        """End the process by force. From any thread: whoever waits for it gets InstanceLost, and no other takes its
        place."""
        self._is_closed = True
        for worker in (self._worker, self._starting):
            if worker is not None:
                worker.abandon()

    def close(self) -> None:
        """The process ends, and its memory goes as soon as nobody refers to this object or to answers any more."""
        self._is_closed = True
        self._worker.end()
        self.buffers.close()
        self.on_loss = _nothing

    # One batch

    def _send(self, inputs: Inputs, requests: Sequence[InferenceRequest], *, is_stream: bool) -> list[memoryview]:
        """Hand a batch to the process. Returns what must live until it has answered."""
        self._make_ready()
        leases: list[memoryview] = []
        places = tuple(
            [
                None if array is None else self._carrier.place(datatype, array, leases)
                for datatype, array in zip(self._inputs, inputs, strict=True)
            ]
        )
        self._number += 1
        flags, offset = self._carrier.flags(len(requests))
        leases.append(flags)
        try:
            frame = Execute(places, self._notes(requests), offset, self._take_returned(), is_stream, self._number)
            self._watch(requests, leases)
            self._tell(frame)
        except (TypeError, ValueError, OverflowError) as error:
            self._worker.rest()
            raise InputError(f"parameters: a value cannot be handed to the model's process ({error})") from None
        return leases

    def _make_ready(self) -> None:
        """See to it that there is a process that waits for a batch. Raises: InstanceLost."""
        self._mend_now()
        worker = self._worker
        try:
            if worker.data.is_silent():
                return
            worker.give_up(LossReason.GARBLED, "wrote over its socket", "it spoke unasked")
        except ChannelClosed:  # it ended while it was idle, which has just not been noticed
            pass
        worker.lost()
        self._mend_now()

    def _mend_now(self) -> None:
        """As `mend`. Raises: InstanceLost instead of LoadError."""
        if self._worker.is_lost:
            try:
                self.mend()
            except LoadError as error:
                raise InstanceLost(f"model {self._source.name!r} has no process to run in: {error}") from None

    def _notes(self, requests: Sequence[InferenceRequest]) -> tuple[RequestNote, ...]:
        if not self._takes_notes:
            return tuple([RequestNote(request.rows, request.deadline) for request in requests])
        return tuple(
            [
                RequestNote(
                    request.rows,
                    request.deadline,
                    request.id,
                    dict(request.parameters),
                    request.requested_outputs,
                    getattr(request, "length", None),
                )
                for request in requests
            ]
        )

    def _watch(self, requests: Sequence[InferenceRequest], leases: list[memoryview]) -> None:
        flags, number, worker = leases[-1], self._number, self._worker

        def look() -> None:
            for index, request in enumerate(requests):
                if request.is_released:
                    flags[index] = 1
            # Code in Python ends when it will. Others are told again at each look, as they may just be about to begin.
            if not self._takes_notes and all(flags):
                worker.terminate(number)

        timeout_ns = self.timeout_ns
        if not self._timeout_ns and requests[0].sender is NOBODY:
            timeout_ns = max(timeout_ns, _WARMUP_TIMEOUT_NS)
        worker.watch(timeout_ns, look)

    @property
    def timeout_ns(self) -> int:
        """How long a batch may take: as configured, or the larger of 5 s and 5 times the 99th percentile."""
        return self._timeout_ns or self._patience.ns

    def _tell(self, frame: Execute | More | Stop) -> None:
        try:
            self._worker.data.send(frame)
        except ChannelClosed:
            raise _NeverBegun(self._worker.lost().message) from None

    def _receive(self) -> FromWorker:
        """The next answer, of whatever kind. Raises: what the model raised, InstanceLost."""
        worker = self._worker
        try:
            answer = worker.data.receive()
        except LeftUnread:
            worker.rest()
            raise _NeverBegun(worker.lost().message) from None
        except ChannelClosed:
            duration_ns = worker.rest()
            lost = worker.lost()
            if worker.loss is LossReason.HUNG:  # one that was too slow makes us more patient, but not without end
                self._patience.remember(min(duration_ns, LEAST_NS))
            raise lost from None
        except BadFrame as error:
            raise self._garbled(str(error)) from None
        self._patience.remember(worker.rest())
        if isinstance(answer, Failed):
            raise self._failure(answer)
        return answer

    def _failure(self, failed: Failed) -> GuepardError:
        if failed.code == ErrorCode.INVALID_ARGUMENT.value:
            return InputError(failed.message, row=failed.row)
        message = failed.message or f"model {self._source.name!r} failed: {failed.kind}"
        error = _ERRORS.get(failed.code, ModelError)(message)
        if failed.traceback:
            error.__cause__ = remote_error(failed.traceback)
        return error

    def _garbled(self, what: str) -> InstanceLost:
        self._worker.rest()
        self._worker.give_up(LossReason.GARBLED, "wrote over its socket", what)
        return self._worker.lost()

    def _end_stream(self) -> None:
        """The caller wants no more: wait for the model's generator to be closed."""
        try:
            self._tell(Stop())
            while not isinstance(self._receive(), End):
                pass
        except GuepardError as error:
            log.warning("model %s: closing a stream: %s", self._source.name, error)

    # Outputs in the process's memory

    def _views(self, result: Result) -> Outputs:
        """The outputs, as views whose memory the process has again when nobody looks at them any more."""
        size_bytes = result.size_bytes
        memory: bytes | memoryview = b""
        if size_bytes:
            memory = self._view_of(result.offset, size_bytes)
            if self._held_bytes + size_bytes > _HELD_LIMIT_BYTES:
                memory = memoryview(bytearray(memory))
                self._returned.append((result.ticket, 0))
            else:
                # Every view refers to this array, so its end is the end of them all.
                whole = np.frombuffer(memory, np.uint8)
                self._held_bytes += size_bytes
                finalize(whole, self._returned.append, (result.ticket, size_bytes)).atexit = False
                memory = whole.data
        return self._arrays(result.outputs, memory)

    def _copies(self, item: Item) -> Outputs:
        memory = bytes(self._view_of(item.offset, item.size_bytes)) if item.size_bytes else b""
        return self._arrays(item.outputs, memory)

    def _view_of(self, offset: int, size_bytes: int) -> memoryview:
        try:
            return self._view.view(offset, size_bytes)
        except ValueError as error:
            raise self._garbled(str(error)) from None

    def _arrays(self, places: tuple[Place, ...], memory: bytes | memoryview) -> list[Array]:
        if [place.datatype for place in places] != self._outputs:
            raise self._garbled(f"outputs of {[place.datatype for place in places]} instead of {self._outputs}")
        whole = memoryview(memory)
        arrays = []
        for place in places:
            part: bytes | memoryview = place.data
            if place.offset >= 0:
                part = whole[place.offset : place.offset + max(0, place.size_bytes)]
            try:
                arrays.append(view_array(place, part))
            except BadFrame as error:
                raise self._garbled(str(error)) from None
            arrays[-1].flags.writeable = False
        return arrays

    def _take_returned(self) -> tuple[int, ...]:
        tickets = []
        while self._returned:
            ticket, size_bytes = self._returned.popleft()
            self._held_bytes -= size_bytes
            tickets.append(ticket)
        return tuple(tickets)

    def _lost(self, loss: LossReason) -> None:
        self.losses[loss] += 1
        self.on_loss()


def _nothing() -> None:
    pass
