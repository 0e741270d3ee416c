"""A process instance: loads one model and runs one batch at a time, as the server asks.

It is started with a fresh interpreter, never forked, so no thread of the server's is missing in it. It ends when the
server closes its sockets or is gone; signals that are meant for the server (Ctrl-C, a supervisor's SIGTERM to all) do
not end it, as the server still answers what it took in.
"""

import ctypes
import faulthandler
import io
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress

from guepard.backends.base import Executor, LoadedModel, Outputs
from guepard.backends.registry import get_backend
from guepard.core.errors import GuepardError, InputError, LoadError, ModelError
from guepard.core.model_config import SECOND
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.response import NOBODY
from guepard.core.tensor import Array
from guepard.engine.processes.carrier import Carrier, view_array
from guepard.engine.processes.log_bridge import BridgeHandler
from guepard.engine.processes.source import MARK, unpack
from guepard.limits.heap import keep_freed_memory, keep_one_heap, trim_heap
from guepard.memory.shared_arena import SharedArena, SharedView
from guepard.memory.slab_pool import SlabPool
from guepard.transport.channel import NOTE_BYTES, Channel, ChannelClosed
from guepard.transport.frames import (
    AskHealth,
    End,
    Execute,
    Failed,
    Health,
    Item,
    Load,
    Loaded,
    More,
    Place,
    Refused,
    RequestNote,
    Result,
    Terminate,
    ToWorker,
    Trim,
)

log = logging.getLogger("guepard.process")

OUTPUT_LIMIT_BYTES = 2**30
"""Of outputs in shared memory; what is beyond travels through the socket."""

_HEAP_KEPT_BYTES = 2**26
"""Of freed memory, until the model is idle: models have their own copies of inputs, made anew for each batch."""

_IDLE_NS = 30 * SECOND  # outputs' slabs that nobody has used for so long go back to the system
_FAREWELL_S = 5.0
_MOST_ROWS = 2**31  # what else a model may call a row is none

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = "500"  # when memory runs out, the kernel ends this process before the server


def main(arguments: Sequence[str]) -> None:
    """`arguments`: descriptors of the two sockets and of the two memories, and the level of the log."""
    data_fd, control_fd, input_fd, output_fd, is_sealed, level = map(int, arguments)
    _settle_in(data_fd, control_fd, input_fd, output_fd)
    data: Channel[ToWorker] = Channel(socket.socket(fileno=data_fd), ToWorker)
    control: Channel[ToWorker] = Channel(socket.socket(fileno=control_fd), ToWorker, NOTE_BYTES)
    logging.basicConfig(level=level, handlers=[BridgeHandler(control)])
    os.register_at_fork(after_in_child=lambda: _leave(data, control))
    watch = _Control(control)
    threading.Thread(target=watch.run, name="control", daemon=True).start()
    with suppress(ChannelClosed):
        worker = _load(data)
        if worker is not None:
            arena = SharedArena(output_fd, is_sealed=bool(is_sealed))
            pool = SlabPool(arena, limit_bytes=OUTPUT_LIMIT_BYTES)
            watch.worker, watch.model, watch.outputs = worker, worker.model, pool
            try:
                data.send(Loaded(worker.model.description))  # only now, as questions about the model may follow at once
                worker.serve(data, SharedView(input_fd), Carrier(arena, pool))
            finally:
                worker.close()


def _settle_in(*descriptors: int) -> None:
    _end_with_the_server()
    for descriptor in descriptors:  # which programs that the model starts would keep open
        os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, _left_to_the_server)
    signal.signal(signal.SIGTERM, _left_to_the_server)
    for stream in (sys.stdout, sys.stderr):  # what a model prints leaves by whole lines, never inside a record
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)
    faulthandler.enable()
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_OOM_SCORE)


def _end_with_the_server() -> None:
    """Even where code never lets go of the interpreter. Source: prctl(2), PR_SET_PDEATHSIG."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _leave(data: Channel[ToWorker], control: Channel[ToWorker]) -> None:
    """In a process that the model has forked: it is no instance, and must not speak as one."""
    data.forget()
    control.forget()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _left_to_the_server:
            signal.signal(number, signal.SIG_DFL)


def _left_to_the_server(number: int, frame: object) -> None:
    """A handler rather than SIG_IGN, which programs that the model starts would inherit."""


def _load(data: Channel[ToWorker]) -> "_Worker | None":
    load = data.receive()
    assert isinstance(load, Load)
    model: LoadedModel | None = None
    try:
        os.environ[MARK] = "1"
        source = unpack(load.source)
        del os.environ[MARK]
        if source.profile == "low-memory":
            keep_one_heap()
        else:
            keep_freed_memory(_HEAP_KEPT_BYTES)
        model = get_backend(load.backend, source.path).load(source)
        executor = model.executor()
    except (LoadError, GuepardError) as error:
        reason = str(error)
    except BaseException as error:
        log.exception("the model failed to load")
        reason = f"loading failed: {type(error).__name__}"
    else:
        trim_heap()  # making a session takes memory for a moment
        return _Worker(model, executor)
    if model is not None:
        model.close()
    data.send(Refused(reason))
    return None


class _Worker:
    def __init__(self, model: LoadedModel, executor: Executor) -> None:
        self.model = model
        self._executor = executor
        self._outputs = [spec.datatype.name for spec in model.description.outputs]
        self._held: dict[int, memoryview] = {}
        self._next_ticket = 0
        self._running = 0  # the number of the batch that runs
        self._ending = threading.Lock()  # of a batch: none follows while an order to end it is being carried out

    def terminate(self, number: int) -> None:
        """End the batch of that number early, if it runs and can be ended. From another thread."""
        with self._ending:
            if self._running == number:
                self._executor.terminate()

    def serve(self, data: Channel[ToWorker], inputs: SharedView, carrier: Carrier) -> None:
        """Run batches until the server closes the socket. `carrier` takes the outputs."""
        while True:
            execute = data.receive()
            assert isinstance(execute, Execute)
            for ticket in execute.released:
                self._held.pop(ticket, None)
            self._running = execute.number
            try:
                arrays = [None if place is None else _array(place, inputs) for place in execute.inputs]
                requests = _requests(execute, arrays, inputs)
                if execute.is_stream:
                    self._stream(data, carrier, arrays, requests)
                    data.send(End())
                else:
                    data.send(self._run(carrier, arrays, requests))
            except ChannelClosed:
                raise
            except BaseException as error:  # code of users may raise anything, and the process serves on
                data.send(_failure(error))
            finally:
                with self._ending:
                    self._running = 0

    def _run(self, carrier: Carrier, arrays: list[Array | None], requests: list[InferenceRequest]) -> Result:
        outputs = self._executor.execute(arrays, requests)
        places, lease, offset, size_bytes = carrier.place_together(self._outputs, outputs)
        ticket = self._next_ticket
        if lease is not None:
            self._next_ticket += 1
            self._held[ticket] = lease
        return Result(ticket, offset, size_bytes, places)

    def _stream(
        self,
        data: Channel[ToWorker],
        carrier: Carrier,
        arrays: list[Array | None],
        requests: list[InferenceRequest],
    ) -> None:
        answers: Iterator[Outputs] = self._executor.execute_stream(arrays, requests)
        try:
            for outputs in answers:
                places, _lease, offset, size_bytes = carrier.place_together(self._outputs, outputs)
                data.send(Item(offset, size_bytes, places))
                if not isinstance(data.receive(), More):
                    return
        finally:
            answers.close()  # type: ignore[attr-defined]

    def close(self) -> None:
        self._executor.close()
        self.model.close()


class _Control:
    """Answers questions beside the batches, and notices when the server has gone."""

    def __init__(self, control: Channel[ToWorker]) -> None:
        self._control = control
        self.worker: _Worker | None = None  # once it is loaded, before which nothing is told
        self.model: LoadedModel | None = None  # once it is loaded, before which nothing is asked
        self.outputs: SlabPool | None = None  # likewise

    def run(self) -> None:
        while True:
            try:
                frame = self._control.receive()
            except ChannelClosed:
                self._wait_for_the_end()
                return
            if self.outputs is not None:  # the server asks for the model's health every few seconds
                self.outputs.trim(_IDLE_NS)
            if isinstance(frame, AskHealth):  # it may take long, and the end must still be noticed
                threading.Thread(target=self._tell_health, name="health", daemon=True).start()
            elif isinstance(frame, Terminate) and self.worker is not None:
                self.worker.terminate(frame.number)
            elif isinstance(frame, Trim):
                threading.Thread(target=self._trim, name="trim", daemon=True).start()

    def _trim(self) -> None:
        if self.model is not None:
            self.model.trim()
            trim_heap()

    def _tell_health(self) -> None:
        try:
            if self.model is not None:
                self.model.health()
        except BaseException as error:
            answer = Health((type(error).__name__, str(error).encode(errors="replace").decode()))
        else:
            answer = Health(None)
        with suppress(ChannelClosed):
            self._control.send(answer)

    def _wait_for_the_end(self) -> None:
        """The main thread ends the process after `unload`; a batch that never ends must not keep it."""
        threading.main_thread().join(_FAREWELL_S)
        os._exit(1)


class _Request(InferenceRequest):
    """A request as far as the model may know it. Its flag lies in memory that the server writes to."""

    __slots__ = ("_flag",)

    def __init__(self, note: RequestNote, flag: memoryview) -> None:
        super().__init__((), NOBODY, 0)
        self.rows = note.rows
        self.deadline = note.deadline_ns
        self.id = note.id
        self.parameters = note.parameters
        self.requested_outputs = note.requested_outputs
        self.state = RequestState.EXECUTING
        if note.length is not None:
            self.length = note.length
        self._flag = flag

    @property
    def is_released(self) -> bool:
        return self._flag[0] != 0


def _requests(execute: Execute, arrays: Sequence[Array | None], inputs: SharedView) -> list[InferenceRequest]:
    count = len(execute.requests)
    flags = inputs.view(execute.flags, count) if execute.flags >= 0 else memoryview(bytes(count))
    return [_Request(note, flags[index : index + 1]) for index, note in enumerate(execute.requests)]


def _array(place: Place, inputs: SharedView) -> Array:
    """An array to be read only: its memory is used for the next batch, so whoever wants to keep it copies it."""
    array = view_array(place, place.data if place.offset < 0 else inputs.view(place.offset, place.size_bytes))
    array.flags.writeable = False
    return array


def _failure(error: BaseException) -> Failed:
    """As the engine judges errors: what the model raised goes to the log and nowhere else."""
    row = error.row if isinstance(error, InputError) else None
    if row is not None and not 0 <= row < _MOST_ROWS:
        row = None
    if isinstance(error, GuepardError):
        cause = error.__cause__ if isinstance(error, ModelError) else None
        return Failed(error.code.value, error.message, row, _text(cause))
    return Failed(ModelError.code.value, "", None, _text(error), type(error).__name__)


def _text(error: BaseException | None) -> str:
    if error is None:
        return ""
    return "".join(traceback.format_exception(error)).encode(errors="replace").decode()


if __name__ == "__main__":
    main(sys.argv[1:])
