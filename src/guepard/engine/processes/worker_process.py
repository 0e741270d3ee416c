"""A process instance as the server sees it: started, watched, and given up when it cannot be relied on."""

import logging
import os
import select
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from signal import SIGCONT, SIGKILL, SIGTERM, Signals
from time import monotonic_ns, sleep

from guepard.backends.base import ModelSource
from guepard.core.errors import InstanceLost, LoadError
from guepard.core.model_config import ModelDescription
from guepard.core.reasons import LossReason
from guepard.engine.processes import log_bridge
from guepard.engine.processes.interpreter import start_interpreter
from guepard.engine.processes.process_state import ProcessState
from guepard.engine.processes.source import pack
from guepard.memory.shared_arena import SharedArena
from guepard.transport.channel import NOTE_BYTES, BadFrame, Channel, ChannelClosed
from guepard.transport.frames import AskHealth, FromWorker, Health, Load, Loaded, Record, Refused, Terminate, Trim

log = logging.getLogger(__name__)

_LOOK_NS = 200_000_000
_LOOKS_STOPPED = 2  # a debugger or profiler that looks in stops a process for less
_HARD_EXCESS = 1.5  # of the memory limit: from here on a batch is not waited for
_HEALTH_TIMEOUT_S = 4.0
_UNLOAD_S = 5.0
_CLEAR_UP_NS = 500_000_000  # from the end of a process to that of what it has left, by force
_CLEAR_UP_LOOK_S = 0.02
_MEMORY_REMEDY = "raise it in instance_group, or lower count, by which the default is divided"
_FATE_S = 1.0  # from the end of a process to when we know what became of it


class WorkerProcess:
    """One process for one copy of a model, which `load` loads.

    `on_loss` is called once, on a thread of this object's own, when the process was given up or is to be replaced; from
    then on `loss` says why and `fate` in what words, which clients may read. `memory_limit_bytes` 0: it may grow as it
    likes.

    Raises: LoadError when no process can be had.
    """

    def __init__(
        self, source: ModelSource, backend: str, memory_limit_bytes: int, on_loss: Callable[[LossReason], None]
    ) -> None:
        self.loss: LossReason | None = None
        self.fate = ""
        self.memory_bytes = 0
        self._name = source.name
        self._memory_limit_bytes = memory_limit_bytes
        self._on_loss = on_loss
        self._healths: SimpleQueue[Health | None] = SimpleQueue()
        self._losing = threading.Lock()
        self._is_fated = threading.Event()  # it has ended, and why is known
        self._is_ending = False
        self._is_retired = False
        self._is_loaded = False
        self._load_timeout_ns = source.policy.load_timeout_ns
        # What the batch that runs now is watched by: when it began, how long it may take, and what to do at each look.
        self._since = 0
        self._limit_ns = 0
        self._look: Callable[[], None] = _nothing
        self._watched_since = 0
        self._watched_ns = 0  # of that batch
        self._stopped_looks = 0
        self._order = Load(backend, pack(source))
        try:
            self._begin(source)
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise LoadError(f"no process could be started for it: {reason}") from None

    def _begin(self, source: ModelSource) -> None:
        self.inputs = SharedArena.create(f"guepard-{source.name}-in")
        self.outputs = SharedArena.create(f"guepard-{source.name}-out")
        started: SimpleQueue[subprocess.Popen[bytes] | Exception] = SimpleQueue()
        data, theirs = socket.socketpair()
        control, their_control = socket.socketpair()
        with ExitStack() as stack:
            for each in (data, control):
                stack.callback(each.close)
            with theirs, their_control:
                descriptors = (theirs.fileno(), their_control.fileno(), self.inputs.descriptor, self.outputs.descriptor)

                def run() -> None:
                    """The process ends with the thread that started it, so that is the one that watches it."""
                    try:
                        process = _start(descriptors, self.outputs.is_sealed, source.threads)
                    except Exception as error:
                        started.put(error)
                        return
                    started.put(process)
                    ready.wait()
                    self._watch()

                ready = threading.Event()
                self._watcher = threading.Thread(target=run, name=f"{source.name}-watch", daemon=True)
                self._watcher.start()
                process = started.get()
                if isinstance(process, Exception):
                    raise process
            self._process = process
            self.pid = process.pid
            self._state = ProcessState(self.pid)
            self.data: Channel[FromWorker] = Channel(data, FromWorker)
            self._control: Channel[FromWorker] = Channel(control, FromWorker, NOTE_BYTES)
            stack.pop_all()
        ready.set()

    def load(self) -> None:
        """Have the model loaded; `description` is then known. Raises: LoadError, and the process is gone."""
        try:
            self.watch(self._load_timeout_ns, _nothing)
            self.description = self._load()
            self.rest()
            self._check_size()
            self._is_loaded = True
        except BaseException:
            self.end()
            raise

    @property
    def is_lost(self) -> bool:
        return self.loss is not None

    def watch(self, limit_ns: int, look: Callable[[], None]) -> None:
        """A batch begins: give the process up after `limit_ns`, and call `look` now and then until `rest`."""
        self._limit_ns = limit_ns
        self._look = look
        self._since = monotonic_ns()

    def rest(self) -> int:
        """The batch has ended. Returns how long it took, in nanoseconds."""
        since, self._since = self._since, 0
        self._look = _nothing
        return monotonic_ns() - since

    def lost(self) -> InstanceLost:
        """The error of whoever was waiting for a process that was given up."""
        if not self._is_fated.wait(_FATE_S):
            self.give_up(LossReason.GARBLED, "closed its socket")
            self._is_fated.wait(_UNLOAD_S)
        return InstanceLost(f"model {self._name!r} failed: its process {self.fate or 'ended'}")

    def give_up(self, loss: LossReason, fate: str, detail: str = "") -> None:
        """End the process by force: it cannot be relied on. The first reason counts. `detail` is for the log alone."""
        if detail:
            log.error("model %s: process %d %s: %s", self._name, self.pid, fate, detail)
        with self._losing:
            if self.loss is None:
                self.loss = loss
                self.fate = fate
        self._process.kill()

    def _retire(self, loss: LossReason, fate: str) -> None:
        """Let it end what it does, and have another take its place."""
        with self._losing:
            if self.loss is not None:
                return
            self.loss = loss
            self.fate = fate
        self._is_retired = True
        self._on_loss(loss)

    def health(self) -> None:
        """Raises: RemoteAilment when the model's own check raised; TimeoutError; InstanceLost."""
        while not self._healths.empty():  # what came too late for whoever asked
            self._healths.get_nowait()
        try:
            self._control.send(AskHealth())
            answer = self._healths.get(timeout=_HEALTH_TIMEOUT_S)
        except Empty:
            raise TimeoutError("the model's health check did not return") from None
        except ChannelClosed:
            answer = None
        if answer is None:
            raise self.lost()
        if answer.ailment is not None:
            raise RemoteAilment(*answer.ailment)

    def trim(self) -> None:
        try:
            self._control.send(Trim())
        except ChannelClosed:
            return  # whoever watches it sees to that

    def terminate(self, number: int) -> None:
        """Nobody waits for the batch of that number any more. Returns at once: who does not listen is not told."""
        with suppress(ChannelClosed):
            self._control.try_send(Terminate(number))

    def abandon(self) -> None:
        """End it by force, whatever it does: nobody wants it any more."""
        self._is_ending = True
        self._process.kill()

    def end(self) -> None:
        """Let the model unload, for some seconds, then end the process. Blocks until it is gone."""
        self._is_ending = True
        self.data.close()
        try:
            self._process.wait(_UNLOAD_S if self.loss in (None, LossReason.MEMORY) else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._watcher.join(_UNLOAD_S)
        self._control.close()
        self._on_loss = _ignore  # whoever is told refers to us: without that, memory and descriptors go at once

    def _load(self) -> ModelDescription:
        try:
            self.data.send(self._order)
            answer = self.data.receive()
        except (ChannelClosed, BadFrame):
            raise LoadError(f"its process {self._fate_at_load()}") from None
        if isinstance(answer, Refused):
            raise LoadError(answer.reason)
        if not isinstance(answer, Loaded):
            raise LoadError("its process answered something else than that it has loaded the model")
        return answer.description

    def _fate_at_load(self) -> str:
        self._is_fated.wait(_UNLOAD_S)
        remedy = f"; {_MEMORY_REMEDY}" if self.loss is LossReason.MEMORY else ""
        return f"{self.fate or 'ended'} while it loaded the model{remedy}"

    def _check_size(self) -> None:
        """A model that is too large from the start would be replaced again and again."""
        size, limit = self._state.private_bytes(), self._memory_limit_bytes
        if limit and size > limit:
            raise LoadError(
                f"its process takes {_size(size)} when it has loaded the model, and its memory_limit is "
                f"{_size(limit)}; {_MEMORY_REMEDY}"
            )

    # The watch

    def _watch(self) -> None:
        """Until the process has gone: pass on its log, look at it, and give it up when it must be."""
        ending = _open_pidfd(self.pid)
        try:
            self._watch_until(ending)
        except ChannelClosed:
            pass
        except BadFrame as error:
            self.give_up(LossReason.GARBLED, "wrote over its socket", str(error))
        except Exception:  # nobody else would notice the end of the process
            log.exception("model %s: the watch over process %d failed", self._name, self.pid)
            self.give_up(LossReason.GARBLED, "could not be watched")
        finally:
            if ending is not None:
                os.close(ending)
        self._find_fate()
        self.data.close()  # wakes whoever waits for an answer
        self._healths.put(None)
        if self.loss is not None and self._is_loaded and not self._is_ending and not self._is_retired:
            self._on_loss(self.loss)
        self._is_fated.set()
        self._clear_up()

    def _watch_until(self, ending: int | None) -> None:
        """Until the process that `ending` is a descriptor of has ended. Raises: ChannelClosed, BadFrame."""
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        if ending is not None:
            poll.register(ending, select.POLLIN)
        looked = monotonic_ns()
        while True:
            wait_ns = max(0, looked + _LOOK_NS - monotonic_ns())
            ready = poll.poll(wait_ns / 1e6)
            if ready:
                self._hear()
            if any(descriptor == ending for descriptor, _ in ready):
                return
            now = monotonic_ns()
            if now - looked >= _LOOK_NS:
                # What was not watched does not count: the server itself may have been stopped, or starved.
                self._look_at_it(min(now - looked, 2 * _LOOK_NS))
                looked = now
                if ending is None and self._process.poll() is not None:
                    self._hear()
                    return

    def _hear(self) -> None:
        """What the process says, as far as it has come: a process may be stopped within a frame."""
        self._control.read()
        while (frame := self._control.take()) is not None:
            if isinstance(frame, Record):
                log_bridge.write(frame)
            elif isinstance(frame, Health):
                self._healths.put(frame)

    def _look_at_it(self, passed_ns: int) -> None:
        self._stopped_looks = self._stopped_looks + 1 if self._state.is_stopped() else 0
        if self._stopped_looks >= _LOOKS_STOPPED:
            self.give_up(LossReason.STOPPED, "was stopped and did not go on")
        self._look_at_time(passed_ns)
        self._look_at_memory()

    def _look_at_time(self, passed_ns: int) -> None:
        since = self._since
        if not since:
            return
        if since != self._watched_since:
            self._watched_since = since
            self._watched_ns = 0
            passed_ns = min(passed_ns, monotonic_ns() - since)
        self._watched_ns += passed_ns
        self._look()
        if self._watched_ns > self._limit_ns and self._since == since:
            option = "instance_timeout" if self._is_loaded else "load_timeout"
            self.give_up(LossReason.HUNG, f"did not answer within {self._limit_ns / 1e9:.3g} s ({option})")

    def _look_at_memory(self) -> None:
        self.memory_bytes = self._state.private_bytes()
        limit = self._memory_limit_bytes
        if not limit or self.memory_bytes <= limit:
            return
        fate = f"had grown to {_size(self.memory_bytes)}, beyond its memory_limit of {_size(limit)}"
        if self.memory_bytes > limit * _HARD_EXCESS:
            self.give_up(LossReason.MEMORY, fate)
        elif self.loss is None and self._is_loaded:
            self._retire(LossReason.MEMORY, fate)

    def _find_fate(self) -> None:
        """Give it up for what it did itself, unless we did it. Then see to it that nothing is left of it."""
        try:
            code = self._process.wait(_UNLOAD_S if self._is_ending else _FATE_S)
        except subprocess.TimeoutExpired:  # it has closed its socket and goes on
            self.give_up(LossReason.GARBLED, "closed its socket")
            code = self._process.wait()
        with self._losing:
            if self.loss is None and not self._is_ending:
                self.loss = LossReason.EXITED
                self.fate = f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"

    def _clear_up(self) -> None:
        """End what the model started and did not end: it would hold the model's memory. Not all of it ends when told:
        a fork may not have been far enough to hear it."""
        with suppress(ProcessLookupError, PermissionError):
            for number in (SIGTERM, SIGCONT):
                os.killpg(self.pid, number)
            end = monotonic_ns() + _CLEAR_UP_NS
            while monotonic_ns() < end:
                os.killpg(self.pid, 0)  # raises when nobody is left
                sleep(_CLEAR_UP_LOOK_S)
            os.killpg(self.pid, SIGKILL)


class RemoteAilment(Exception):
    """What the model's `health` raised in its process: the type and the text of it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def _nothing() -> None:
    pass


def _ignore(loss: LossReason) -> None:
    pass


def _start(descriptors: tuple[int, ...], is_sealed: bool, threads: int) -> subprocess.Popen[bytes]:
    level = logging.getLogger().getEffectiveLevel()
    return start_interpreter(
        "guepard.engine.processes.worker", [*descriptors, int(is_sealed), level], descriptors, threads
    )


def _open_pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends. None where the system has no such thing.

    The end of its sockets would not do: processes that the model has forked may hold them.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _size(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB" if size_bytes >> 20 else f"{size_bytes} bytes"


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
