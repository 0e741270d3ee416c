"""A generator process: `python -m guepard.measure.load.worker DESCRIPTOR`, started by `generator.py`.

It does nothing but carry out its share of plans and send what it wrote down. It ends with its parent.
"""

import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import EMFILE, ENFILE
from pathlib import Path

import msgspec

from guepard.measure.load.client import Address, Client, SlotOwner
from guepard.measure.load.driver import Driver
from guepard.measure.load.frames import Frame, FrameReader, Share, Usage, frame
from guepard.measure.load.journal import Journal
from guepard.measure.load.plan import LoadPlan
from guepard.measure.load.poller import READ, Poller

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29
_PRIORITY = -10


MakeClient = Callable[[LoadPlan, SlotOwner], Client]


class Worker:
    """Carries out plans that come over `control`, one after the other. `cpu_ns` reads the CPU time that it used."""

    def __init__(
        self,
        control: socket.socket,
        make_client: MakeClient,
        cpu_ns: Callable[[], int] = time.process_time_ns,
    ) -> None:
        self._control = control
        self._make_client = make_client
        self._cpu_ns = cpu_ns
        self._reader = FrameReader()
        self._frames: deque[tuple[Frame, bytes]] = deque()
        self._journal = Journal()
        self._outbox: deque[memoryview] = deque()
        self._driver: Driver | None = None

    def run(self) -> None:
        """Until the other side closes. Raises: EOFError then."""
        while True:
            kind, data = self._next_frame()
            if kind is Frame.PLAN:
                plan, share = msgspec.msgpack.decode(data, type=tuple[LoadPlan, Share])
                self._carry_out(plan, share)

    def _next_frame(self) -> tuple[Frame, bytes]:
        self._control.setblocking(True)
        while not self._frames:
            self._frames.extend(self._reader.read(self._control))
        return self._frames.popleft()

    def _carry_out(self, plan: LoadPlan, share: Share) -> None:
        poller = Poller()
        self._journal.clear()
        driver = Driver(
            plan, share=share.index, shares=share.count, journal=self._journal, poller=poller, flush=self._flush
        )
        try:
            client = self._make_client(plan, driver)
        except OSError as error:
            poller.close()
            self._control.sendall(frame(Frame.ERROR, str(error).encode()))
            return
        self._control.sendall(frame(Frame.READY))
        kind, data = self._next_frame()
        if kind is not Frame.START:
            return
        self._driver = driver
        self._control.setblocking(False)
        poller.add(self._control.fileno(), self._told, READ)
        self._obey()  # what came together with START is not read again
        waited_ns, cpu_ns, wall_ns = runqueue_wait_ns(), self._cpu_ns(), time.monotonic_ns()
        try:
            driver.run(client, int(data))
        except ConnectionError:
            raise
        except OSError as error:
            self._give_up(error)
            return
        wait_ns = runqueue_wait_ns()
        usage = Usage(
            cpu_ns=self._cpu_ns() - cpu_ns,
            wall_ns=time.monotonic_ns() - wall_ns,
            runqueue_wait_ns=None if wait_ns is None or waited_ns is None else wait_ns - waited_ns,
            priority=os.getpriority(os.PRIO_PROCESS, 0),
        )
        client.close()
        poller.close()
        self._outbox.append(memoryview(frame(Frame.ENDED, msgspec.msgpack.encode(usage))))
        self._send_all()
        gc.collect()

    def _told(self, mask: int) -> None:
        """Something came from the parent in the middle of a run: STOP, or its end."""
        self._frames.extend(self._reader.read(self._control))
        self._obey()

    def _obey(self) -> None:
        assert self._driver is not None
        while self._frames and self._frames[0][0] is Frame.STOP:
            self._frames.popleft()
            self._driver.stop()

    def _give_up(self, error: OSError) -> None:
        """This machine gives no socket. The run says nothing of the server, and ends."""
        remedy = "; raise ulimit -n, or lower --connections" if error.errno in (EMFILE, ENFILE) else ""
        self._outbox.append(memoryview(frame(Frame.ERROR, f"no connection could be opened: {error}{remedy}".encode())))
        self._send_all()

    def _send_all(self) -> None:
        self._control.setblocking(True)
        while self._outbox:
            self._control.sendall(self._outbox.popleft())

    def _flush(self) -> None:
        self._outbox.extend(map(memoryview, journal_frames(self._journal)))
        # A parent that has no time now gets it later: waiting for it would keep requests waiting.
        while self._outbox:
            part = self._outbox[0]
            try:
                sent = self._control.send(part)
            except BlockingIOError:
                return
            if sent == len(part):
                self._outbox.popleft()
            else:
                self._outbox[0] = part[sent:]


def journal_frames(journal: Journal) -> Iterator[bytes]:
    """What the journal holds, which is empty afterwards."""
    columns = (
        (Frame.ROWS, journal.rows),
        (Frame.GAPS, journal.gaps),
        (Frame.TURNS, journal.turns),
        (Frame.CONNECTS, journal.connects),
        (Frame.HANDSHAKES, journal.handshakes),
    )
    timings = journal.timings
    journal.clear()
    for kind, column in columns:
        if column:
            yield frame(kind, column.tobytes())
    if timings:
        yield frame(Frame.TIMINGS, msgspec.msgpack.encode(timings))


def make_client(plan: LoadPlan, owner: SlotOwner) -> Client:
    """The client of the plan's protocol.

    Raises: OSError if the name cannot be resolved or a certificate file not read."""
    endpoint = plan.endpoint
    family, address = reachable_address(endpoint.host, endpoint.port)
    if endpoint.protocol == "grpc":
        from guepard.measure.load.grpc_client import GrpcClient

        return GrpcClient(plan, owner, family, address)
    from guepard.measure.load.http_client import HttpClient

    return HttpClient(plan, owner, family, address)


def reachable_address(host: str, port: int) -> tuple[int, Address]:
    """The first address of `host` that takes a connection, or else its first. Raises: OSError if it has none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, _, _, _, address in found:
        with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as connection:
            connection.settimeout(1.0)
            connection.connect(address)
            return family, address
    family, _, _, _, address = found[0]
    return family, address


def runqueue_wait_ns() -> int | None:
    """How long this thread has been ready to run without a CPU. Source: /proc/PID/task/TID/schedstat of Linux."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_TIMERSLACK, 1_000, 0, 0, 0)  # sleep to the microsecond, not to the default 50 µs
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (most, most)
    )  # a shell's usual 1,024 are too few for as many connections
    gc.disable()  # between runs the worker collects by itself
    with suppress(OSError):
        # Users have machines of their own: where they share this one, the server must not keep them from asking.
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
    with socket.socket(fileno=int(sys.argv[1])) as control, suppress(EOFError, ConnectionError):
        Worker(control, make_client).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
