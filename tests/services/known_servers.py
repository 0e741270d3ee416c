"""HTTP servers of known behaviour, each a child process, to test what load generators and their statistics say.

    with KnownServer(Stall(every_s=5, for_s=1)) as server:
        ...  # server.url

One process and one loop each, for some ten thousand requests a second; timers are late by well under a millisecond.
It ends with the context, or with the process that started it.
"""

import asyncio
import json
import resource
import select
import selectors
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

import msgspec

from guepard.measure.load.request_counter import RequestCounter
from tests.services.certificates import Certificate, make_certificate
from tests.services.known_behaviours import AnyBehaviour, Handler

ROOT = Path(__file__).parents[2]
_START_S = 20.0
_STOP_S = 10.0
_RESET_ON_CLOSE = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class KnownReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the server saw. `answered` are answers that were begun with their last part written."""

    connections: int
    most_open: int
    requests: int
    answered: int


class KnownServer:
    """`tls_names` makes it speak TLS, with a self-signed certificate (`ca_file`) for these names or IP addresses."""

    def __init__(self, behaviour: AnyBehaviour, *, tls_names: tuple[str, ...] = ()) -> None:
        self._behaviour = behaviour
        self._tls_names = tls_names
        self._folder = tempfile.TemporaryDirectory(prefix="known-server-")
        self._certificate: Certificate | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.host = "127.0.0.1"
        self.port = 0

    def __enter__(self) -> "KnownServer":
        command = [sys.executable, "-m", "tests.services.known_servers", msgspec.json.encode(self._behaviour).decode()]
        if self._tls_names:
            self._certificate = make_certificate(Path(self._folder.name), *self._tls_names)
            command += map(str, self._certificate)
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], _START_S)
        line = self._process.stdout.readline() if readable else b""
        if not line:
            self.stop()
            raise AssertionError(f"{self._behaviour} did not start")
        self.port = int(line)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        host = "localhost" if "localhost" in self._tls_names else self.host
        return f"http{'s' if self._tls_names else ''}://{host}:{self.port}"

    @property
    def ca_file(self) -> Path:
        """What a client must trust to trust a server with TLS."""
        assert self._certificate is not None, "it speaks no TLS, or was not started"
        return self._certificate.file

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def stop(self) -> KnownReport | None:
        """End it. None where it had ended by itself, or was stopped before."""
        if self._process is None:
            return None
        process, self._process = self._process, None
        self._folder.cleanup()
        try:
            output, _ = process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise AssertionError(f"{self._behaviour} did not end") from None
        return msgspec.json.decode(output, type=KnownReport) if output else None


# the child


class _PreciseSelector(selectors.EpollSelector):
    """Waits in microseconds, where epoll has milliseconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


class _Stage:
    """What all connections share."""

    def __init__(self) -> None:
        self.handler: Handler
        self.counter = RequestCounter()
        self.connections = self.open = self.most_open = self.requests = self.answered = 0

    def report(self) -> KnownReport:
        return KnownReport(
            connections=self.connections, most_open=self.most_open, requests=self.requests, answered=self.answered
        )


class _Connection(asyncio.Protocol):
    def __init__(self, stage: _Stage) -> None:
        self._stage = stage
        self._transport: asyncio.Transport
        stage.connections += 1
        stage.open += 1
        stage.most_open = max(stage.most_open, stage.open)
        self._number = stage.connections
        self.head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._stage.open -= 1
        self._stage.counter.forget(self._number)

    def data_received(self, data: bytes) -> None:
        stage = self._stage
        try:
            count = stage.counter.count(self._number, data)
        except ValueError:
            self._transport.abort()
            return
        self.head = stage.counter.head
        for _ in range(count):
            stage.requests += 1
            stage.handler(self, stage.requests - 1)

    def send(self, data: bytes, *, is_last: bool = False) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)
            self._stage.answered += is_last

    def close(self) -> None:
        self._transport.close()

    def reset(self) -> None:
        self._transport.get_extra_info("socket").setsockopt(*_RESET_ON_CLOSE)
        self._transport.abort()


async def _serve(behaviour: AnyBehaviour, context: ssl.SSLContext | None) -> None:
    loop = asyncio.get_running_loop()
    stage = _Stage()
    listener = await loop.create_server(lambda: _Connection(stage), "127.0.0.1", 0, ssl=context, backlog=4_096)
    port = listener.sockets[0].getsockname()[1]
    stage.handler = behaviour.handler(loop, listener)
    over = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), over.set)
    print(port, flush=True)
    await over.wait()
    print(json.dumps(msgspec.to_builtins(stage.report())), flush=True)


def main(behaviour: str, *certificate: str) -> None:
    """`certificate`: its file and its key's, or nothing."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the test says when to end
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    context = Certificate(*map(Path, certificate)).context() if certificate else None
    known = msgspec.json.decode(behaviour, type=AnyBehaviour)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_PreciseSelector())) as runner:
        runner.run(_serve(known, context))


if __name__ == "__main__":
    main(*sys.argv[1:])
