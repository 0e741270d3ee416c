"""An HTTP server that does nothing but answer, as fast as plain Python can: what a load generator is tested against.

One process, one epoll loop, one constant answer per request. Connections are kept, and requests may be pipelined,
split and joined. It ends when its standard input does or its parent is gone, so none is ever left behind.

Cost: 6.5 µs per request, the kernel's part included, with 64 connections on one core of a shared cloud machine.
"""

import argparse
import errno
import gc
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from types import TracebackType

import msgspec

from guepard.measure.load.request_counter import RequestCounter

_READ_BYTES = 65_536
_PARENT_CHECK_S = 1.0
_START_S = 15.0
_STOP_S = 5.0
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class NullReport(msgspec.Struct, frozen=True):
    """What the server did in its life. `cpu_s` is user and system time, its start included."""

    answered: int
    cpu_s: float


class NullServer:
    """The server as a child process: starts on entry, ends on exit. `body_bytes` is the length of its answers' body.

    Raises: OSError, on entry, when it does not start.
    """

    def __init__(self, body_bytes: int = 2) -> None:
        self._body_bytes = body_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self.host = "127.0.0.1"
        self.port = 0

    def __enter__(self) -> "NullServer":
        command = [sys.executable, "-m", "guepard.measure.load.null_server", str(self._body_bytes)]
        # A process group of its own: Ctrl-C is ours to handle, from its first instruction on.
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
        )
        assert self._process.stdout is not None
        try:
            readable, _, _ = select.select([self._process.stdout], [], [], _START_S)
            line = self._process.stdout.readline() if readable else b""
            if not line:
                raise OSError(f"the null server did not start within {_START_S:g} s: {' '.join(command)}")
        except BaseException:
            self._process.kill()
            self._process.communicate()
            raise
        self.port = int(line)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def stop(self) -> NullReport | None:
        """End it. None where it had died, or was stopped before."""
        if self._process is None:
            return None
        process, self._process = self._process, None
        try:
            output, _ = process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None
        return msgspec.json.decode(output, type=NullReport) if output else None


class _Loop:
    """The server's side. `held` are answers that a client did not take yet; nothing more is read from it until then."""

    def __init__(self, listener: socket.socket, answer: bytes, lifeline: int) -> None:
        self._listener = listener
        self._answer = answer
        self._lifeline = lifeline
        self._parent = os.getppid()
        self._epoll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._held: dict[int, bytes] = {}
        self._counter = RequestCounter()
        self.answered = 0

    def run(self) -> None:
        """Until the lifeline ends or the parent is another."""
        for descriptor in (self._listener.fileno(), self._lifeline):
            self._epoll.register(descriptor, select.EPOLLIN)
        while True:
            events = self._epoll.poll(_PARENT_CHECK_S)
            if not events and os.getppid() != self._parent:
                return
            if not self._serve(events):
                return

    def _serve(self, events: list[tuple[int, int]]) -> bool:
        """One turn; False when it was the last."""
        answer, sockets, counter = self._answer, self._sockets, self._counter
        unfinished, readable, read, send = counter.unfinished, select.EPOLLIN, os.read, self._send
        for descriptor, event in events:
            if descriptor not in sockets:
                if descriptor == self._lifeline:
                    return False
                self._accept()
                continue
            try:
                if event != readable:
                    self._rare(descriptor, event)
                    continue
                data = read(descriptor, _READ_BYTES)
                # ── the fast path: one read is one request, with the head of the one before ──
                if (
                    len(data) == counter.request_bytes
                    and descriptor not in unfinished
                    and data.startswith(counter.head)
                ):
                    self.answered += 1
                    send(descriptor, answer)
                elif not data:
                    self._drop(descriptor)
                elif count := counter.count(descriptor, data):
                    self.answered += count
                    send(descriptor, answer * count)
            except (OSError, ValueError):
                self._drop(descriptor)
        return True

    def _send(self, descriptor: int, data: bytes) -> None:
        try:
            sent = os.write(descriptor, data)
        except BlockingIOError:
            sent = 0
        if sent != len(data):
            self._held[descriptor] = data[sent:]
            self._epoll.modify(descriptor, select.EPOLLOUT)

    def _rare(self, descriptor: int, event: int) -> None:
        """A client that takes what was held for it, or one that is gone."""
        if not event & select.EPOLLOUT:
            self._drop(descriptor)
            return
        self._epoll.modify(descriptor, select.EPOLLIN)
        self._send(descriptor, self._held.pop(descriptor))

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
                raise SystemExit("the null server has no descriptor left for a connection: raise `ulimit -n`") from None
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[accepted.fileno()] = accepted
            self._epoll.register(accepted.fileno(), select.EPOLLIN)

    def _drop(self, descriptor: int) -> None:
        self._counter.forget(descriptor)
        self._held.pop(descriptor, None)
        self._sockets.pop(descriptor).close()


def main(arguments: list[str]) -> None:
    """Print the port, serve, print a `NullReport`."""
    parser = argparse.ArgumentParser(prog="python -m guepard.measure.load.null_server", description=__doc__)
    parser.add_argument("body_bytes", type=int, nargs="?", default=2)
    body = b"{}".ljust(parser.parse_args(arguments).body_bytes)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to end
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.disable()  # the loop makes no cycles
    with socket.create_server(("127.0.0.1", 0), backlog=4_096) as listener:
        listener.setblocking(False)
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        loop = _Loop(listener, _HEAD % len(body) + body, sys.stdin.fileno())
        loop.run()
    used = resource.getrusage(resource.RUSAGE_SELF)
    report = NullReport(loop.answered, used.ru_utime + used.ru_stime)
    sys.stdout.write(msgspec.json.encode(report).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
