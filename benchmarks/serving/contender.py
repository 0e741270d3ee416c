"""Servers under test, each started as its own process and ended by its own id."""

import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.serving.process import process_tree, read_stat

BIN = Path(sys.executable).parent
READY_PATH = "/v2/health/ready"
POLL_S = 0.005
START_LIMIT_S = 60.0
STOP_LIMIT_S = 40.0
KILL_LIMIT_S = 5.0
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Contender:
    """A server that has answered."""

    name: str
    pid: int
    port: int
    started_in_s: float
    """From the start of the process to the first good answer."""
    grpc_port: int = 0


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


@contextmanager
def guepard(*models: str, prefix: Sequence[str] = (), grpc: bool = False) -> Iterator[Contender]:
    """`guepard serve`, its log in a file; `prefix` is a command to run it under."""
    http_port, metrics_port, grpc_port = free_ports(3)
    ports = ["--http-port", str(http_port), "--metrics-port", str(metrics_port)]
    ports += ["--grpc-port", str(grpc_port) if grpc else "none"]
    command = [*prefix, str(BIN / "guepard"), "serve", *models, *ports]
    with running("guepard", command, lambda: is_ready(http_port)) as (pid, started_in_s):
        yield Contender("guepard", pid, http_port, started_in_s, grpc_port if grpc else 0)


@contextmanager
def echo(prefix: Sequence[str] = ()) -> Iterator[Contender]:
    (port,) = free_ports(1)
    command = [*prefix, sys.executable, "-m", "benchmarks.serving.echo_server", "--port", str(port)]
    with running("echo", command, lambda: is_ready(port)) as (pid, started_in_s):
        yield Contender("echo", pid, port, started_in_s)


@contextmanager
def grpc_echo(prefix: Sequence[str] = ()) -> Iterator[Contender]:
    (port,) = free_ports(1)
    command = [*prefix, sys.executable, "-m", "benchmarks.serving.grpc_echo_server", "--port", str(port)]
    with running("grpc-echo", command, lambda: _accepts(port)) as (pid, started_in_s):
        yield Contender("grpc echo", pid, port, started_in_s, port)


@contextmanager
def running(
    name: str,
    command: Sequence[str],
    is_ready: Callable[[], bool],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    is_family: bool = False,
    start_limit_s: float = START_LIMIT_S,
    stop_limit_s: float = STOP_LIMIT_S,
) -> Iterator[tuple[int, float]]:
    """Process id, and seconds from the start to the first time that `is_ready`.

    `is_family`: the server starts others, and may leave them without a parent. They stay in its tree, and are ended
    with it. Raises: NotServing with the end of its log.
    """
    with TemporaryDirectory(prefix=f"bench-{name}-") as folder:
        log = Path(folder, "log")
        with log.open("wb") as output:
            started = time.perf_counter()
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=cwd,
                preexec_fn=_keep_orphans if is_family else None,
            )
        try:
            while not is_ready():
                elapsed = time.perf_counter() - started
                if process.poll() is not None or elapsed > start_limit_s:
                    reason = f"ended with {process.returncode}" if process.poll() is not None else "is not ready"
                    told = log.read_text(errors="replace")[-2_000:]
                    raise NotServing(f"{name} {reason} after {elapsed:.1f} s:\n{told}")
                time.sleep(POLL_S)
            yield process.pid, time.perf_counter() - started
        finally:
            _stop(process, stop_limit_s)


class NotServing(RuntimeError):
    """A server ended before it was ready, or took too long."""


def _keep_orphans() -> None:
    """Whoever loses its parent becomes a child of this process, not of the system's first. Kept over exec.

    Source: prctl(2), PR_SET_CHILD_SUBREAPER.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", READY_PATH)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def _stop(process: subprocess.Popen[bytes], limit_s: float) -> None:
    """End the process, and those of its tree that outlive it."""
    family = _descendants(process.pid)
    process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + limit_s
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(POLL_S)
    if process.poll() is None:
        process.kill()
    process.wait()
    for member in filter(_lives, family):
        with suppress(ProcessLookupError):
            os.kill(member.pid, signal.SIGKILL)
    deadline = time.monotonic() + KILL_LIMIT_S
    while any(map(_lives, family)) and time.monotonic() < deadline:
        time.sleep(POLL_S)


class _Member(NamedTuple):
    pid: int
    started_ticks: int
    """Since boot: tells it from a later process of the same number."""


def _descendants(root: int) -> set[_Member]:
    return {_Member(stat.pid, stat.started_ticks) for stat in process_tree(root) if stat.pid != root}


def _lives(member: _Member) -> bool:
    stat = read_stat(member.pid)
    return stat is not None and stat.started_ticks == member.started_ticks and stat.state != "Z"
