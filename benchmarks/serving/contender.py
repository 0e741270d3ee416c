"""Servers under test, each started as its own process and ended by its own id."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

BIN = Path(sys.executable).parent
READY_PATH = "/v2/health/ready"
POLL_S = 0.005
START_LIMIT_S = 60.0
STOP_LIMIT_S = 40.0


@dataclass(frozen=True, slots=True)
class Contender:
    """A server that has answered."""

    name: str
    pid: int
    port: int
    started_in_s: float
    """From the start of the process to the first good answer."""


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


@contextmanager
def guepard(*models: str, prefix: Sequence[str] = ()) -> Iterator[Contender]:
    """`guepard serve` with everything on, its log in a file; `prefix` is a command to run it under."""
    http_port, metrics_port = free_ports(2)
    ports = ["--http-port", str(http_port), "--metrics-port", str(metrics_port)]
    with _running("guepard", [*prefix, str(BIN / "guepard"), "serve", *models, *ports], http_port) as contender:
        yield contender


@contextmanager
def echo(prefix: Sequence[str] = ()) -> Iterator[Contender]:
    (port,) = free_ports(1)
    command = [*prefix, sys.executable, "-m", "benchmarks.serving.echo_server", "--port", str(port)]
    with _running("echo", command, port) as contender:
        yield contender


@contextmanager
def _running(name: str, command: Sequence[str], port: int) -> Iterator[Contender]:
    with TemporaryDirectory(prefix=f"bench-{name}-") as folder:
        log = Path(folder, "log")
        with log.open("wb") as output:
            started = time.perf_counter()
            process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            while not _answers(port):
                elapsed = time.perf_counter() - started
                if process.poll() is not None or elapsed > START_LIMIT_S:
                    reason = f"ended with {process.returncode}" if process.poll() is not None else "is not ready"
                    raise RuntimeError(f"{name} {reason} after {elapsed:.1f} s:\n{log.read_text()[-2_000:]}")
                time.sleep(POLL_S)
            yield Contender(name, process.pid, port, time.perf_counter() - started)
        finally:
            _stop(process)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", READY_PATH)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
