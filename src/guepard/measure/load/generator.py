"""Generator processes, and the runs that they carry out together."""

import resource
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from guepard.core.errors import GuepardError
from guepard.measure.load.frames import Frame, FrameReader, Share, Usage, frame
from guepard.measure.load.plan import LoadPlan
from guepard.measure.load.records import Column, Gaps, Records

_LEAD_NS = 50_000_000
"""From the START frame to the first request, so that all processes begin together."""
_TICK_S = 0.1
_READY_S = 30.0
_OTHER_FILES = 32
"""That a process has open beside its connections."""
_GRACE_S = 10.0
"""Beyond the time-out of the last request."""


class GeneratorFailed(GuepardError):
    """A generator process ended, or could not begin."""


class Carried(NamedTuple):
    """A plan that was carried out, or as much of it as there was time for."""

    usages: tuple[Usage, ...]
    was_interrupted: bool


class Sink(Protocol):
    """Takes what the processes wrote down, as it comes."""

    def begin(self, start_ns: int) -> None: ...

    def add_records(self, records: Records) -> None: ...

    def add_gaps(self, gaps: Gaps) -> None: ...

    def add_turns(self, turns_ns: Column) -> None: ...

    def add_connects(self, connects_ns: Column) -> None: ...

    def add_handshakes(self, handshakes_ns: Column) -> None: ...

    def add_timings(self, timings: list[bytes]) -> None: ...


class LoadGenerator:
    """Processes that carry out one plan after the other. A context manager: they end with it."""

    def __init__(self, processes: int) -> None:
        self._count = processes
        self._processes: list[subprocess.Popen[bytes]] = []
        self._controls: list[socket.socket] = []

    def __enter__(self) -> "LoadGenerator":
        for _ in range(self._count):
            ours, theirs = socket.socketpair()
            with theirs:
                self._start(theirs)
            self._controls.append(ours)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for control in self._controls:
            control.close()
        for process in self._processes:
            try:
                process.wait(1.0 if kind is None else 0.2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def count(self) -> int:
        return self._count

    @property
    def pids(self) -> list[int]:
        """Of the processes, so that they can be pinned."""
        return [process.pid for process in self._processes]

    def run(self, plan: LoadPlan, sink: Sink, tick: Callable[[], bool] = lambda: True) -> Carried:
        """Carry out `plan`, and return when every request has ended.

        `tick` is called ten times a second; False ends the sending, and so does a first Ctrl-C: what is under way then
        still ends. Raises: GeneratorFailed; KeyboardInterrupt at a second one.
        """
        plan = within_files(plan, self._count)
        count = min(self._count, plan.concurrency or plan.max_connections)
        controls = self._controls[:count]
        for index, control in enumerate(controls):
            control.settimeout(_READY_S)
            control.sendall(frame(Frame.PLAN, msgspec.msgpack.encode((plan, Share(index, count)))))
        for control in controls:
            self._expect_ready(control)
        start_ns = time.monotonic_ns() + _LEAD_NS
        sink.begin(start_ns)
        for control in controls:
            control.sendall(frame(Frame.START, str(start_ns).encode()))
        return _Collection(plan, controls, sink, tick, start_ns).collect()

    def _start(self, control: socket.socket) -> None:
        """Have a worker carry out what comes over `control`, of which it needs a descriptor of its own."""
        self._processes.append(
            subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "guepard.measure.load.worker", str(control.fileno())],
                pass_fds=(control.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C is ours to handle, from their first instruction on
            )
        )

    def _expect_ready(self, control: socket.socket) -> None:
        try:
            ((kind, data),) = FrameReader().read(control)
        except (EOFError, OSError, ValueError) as error:
            raise GeneratorFailed(f"a generator process ended before it began: {error!r}") from None
        if kind is not Frame.READY:
            raise GeneratorFailed(data.decode())


def within_files(plan: LoadPlan, processes: int) -> LoadPlan:
    """The plan with no more connections than files that its processes may open.

    Raises: GeneratorFailed for a closed loop of more callers, each of whom needs one.
    """
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(limit - _OTHER_FILES, 1) * processes
    if plan.endpoint.protocol != "http" or limit == resource.RLIM_INFINITY or plan.max_connections <= most:
        return plan
    if plan.concurrency > most:
        raise GeneratorFailed(
            f"{plan.concurrency:,} callers need as many connections, and a process may open {limit:,} files here; "
            "raise that with ulimit -Hn, add --processes, or lower --concurrency"
        )
    return msgspec.structs.replace(plan, max_connections=most)


@contextmanager
def _interrupts_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Ctrl-C calls `handler` meanwhile, if Ctrl-C is for this thread and not ignored."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Collection:
    """The processes' frames during one run."""

    def __init__(
        self,
        plan: LoadPlan,
        controls: list[socket.socket],
        sink: Sink,
        tick: Callable[[], bool],
        start_ns: int,
    ) -> None:
        self._controls = controls
        self._sink = sink
        self._tick = tick
        self._usages: list[Usage] = []
        self._is_stopping = False
        self._was_interrupted = False
        self._deadline_ns = start_ns + plan.duration_ns + plan.timeout_ns + int(_GRACE_S * 1e9)
        self._timeout_ns = plan.timeout_ns

    def collect(self) -> Carried:
        with selectors.DefaultSelector() as selector, _interrupts_to(self._interrupt):
            for control in self._controls:
                selector.register(control, selectors.EVENT_READ, FrameReader())
            while len(self._usages) < len(self._controls):
                try:
                    self._turn(selector)
                except KeyboardInterrupt:
                    if self._was_interrupted:
                        raise
                    self._was_interrupted = True
                if self._was_interrupted and not self._is_stopping:
                    self._stop()
        return Carried(tuple(self._usages), self._was_interrupted)

    def _interrupt(self, number: int, where: FrameType | None) -> None:
        """A first Ctrl-C is only noted: an exception in the middle of the sink's work would leave it half done."""
        if self._was_interrupted:
            raise KeyboardInterrupt
        self._was_interrupted = True

    def _turn(self, selector: selectors.BaseSelector) -> None:
        until = time.monotonic() + _TICK_S
        while (left := until - time.monotonic()) > 0 and len(self._usages) < len(self._controls):
            for key, _ in selector.select(left):
                assert isinstance(key.fileobj, socket.socket)
                try:
                    frames = key.data.read(key.fileobj)
                except (EOFError, OSError):
                    raise GeneratorFailed("a generator process ended in the middle of a run") from None
                for kind, data in frames:
                    self._take(kind, data)
        if not self._tick() and not self._is_stopping:
            self._stop()
        if time.monotonic_ns() > self._deadline_ns:
            raise GeneratorFailed("a generator process did not come to its end")

    def _take(self, kind: Frame, data: bytes) -> None:
        sink = self._sink
        match kind:
            case Frame.ROWS:
                sink.add_records(Records.view(data))
            case Frame.GAPS:
                sink.add_gaps(Gaps.view(data))
            case Frame.TURNS:
                sink.add_turns(np.frombuffer(data, np.int64))
            case Frame.CONNECTS:
                sink.add_connects(np.frombuffer(data, np.int64))
            case Frame.HANDSHAKES:
                sink.add_handshakes(np.frombuffer(data, np.int64))
            case Frame.TIMINGS:
                sink.add_timings(msgspec.msgpack.decode(data, type=list[bytes]))
            case Frame.ERROR:
                raise GeneratorFailed(data.decode())
            case Frame.ENDED:
                self._usages.append(msgspec.msgpack.decode(data, type=Usage))

    def _stop(self) -> None:
        self._is_stopping = True
        self._deadline_ns = min(self._deadline_ns, time.monotonic_ns() + self._timeout_ns + int(_GRACE_S * 1e9))
        for control in self._controls:
            control.sendall(frame(Frame.STOP))
