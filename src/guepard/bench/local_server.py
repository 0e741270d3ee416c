"""`guepard serve` as a child process, for targets that are models and not yet servers."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

from guepard.core.errors import ConfigurationError, GuepardError

# The command line of `guepard serve`, by a process that is asked to end when this one has ended, however that came.
_WITH_PARENT = """
import ctypes, os, runpy, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
if os.getppid() == int(sys.argv.pop(1)):
    runpy.run_module("guepard", run_name="__main__", alter_sys=True)
"""
_STOP_S = 40.0
_KEPT_LINES = 20
_WRONG_USAGE = 2


class ServerNotStarted(GuepardError):
    """The model that was to be measured is not served."""


class Ports(NamedTuple):
    http: int
    grpc: int
    metrics: int


class LocalServer:
    """Serves one model on ports that the system chooses, from entry to exit, or until this process is gone.

    Raises (entry): ServerNotStarted with what the server said, if it does not serve within `ready_s`.
    """

    def __init__(self, model: str, *, arguments: Sequence[str] = (), ready_s: float = 120.0) -> None:
        self._command = [sys.executable, "-c", _WITH_PARENT, str(os.getpid())]
        self._command += ["serve", model, "--log-format", "json", "--exit-on-error"]
        for option in ("--http-port", "--grpc-port", "--metrics-port"):
            self._command += [option, "0"]
        self._command += arguments
        self._model = model
        self._ready_s = ready_s
        self._said: deque[str] = deque(maxlen=_KEPT_LINES)
        self._ports: Ports | None = None
        self._told = threading.Event()

    def __enter__(self) -> Ports:
        # A process group of its own, so that Ctrl-C reaches the bench first: it ends the load, then the server.
        self._process = subprocess.Popen(  # noqa: S603
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self._reader = threading.Thread(target=self._read, name="server-log", daemon=True)
        self._reader.start()
        try:
            return self._wait()
        except BaseException:
            self._stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def _wait(self) -> Ports:
        deadline = time.monotonic() + self._ready_s
        while not self._told.wait(0.05):
            if time.monotonic() > deadline:
                waited = f"it does not serve after {self._ready_s:.0f} s"
                raise ServerNotStarted(f"{self._model}: {waited}; {self._last_words()}")
        if self._ports is not None:
            return self._ports
        words = f"{self._model}: it cannot be served: {self._last_words()}"
        if self._process.wait(_STOP_S) == _WRONG_USAGE:
            raise ConfigurationError(words)
        raise ServerNotStarted(words)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            try:
                record = json.loads(line)
            except ValueError:
                record = {}
            if isinstance(record, dict) and "http_port" in record:
                self._ports = Ports(record["http_port"], record.get("grpc_port", 0), record["metrics_port"])
                self._told.set()
            if not isinstance(record, dict) or record.get("level", "error") == "error":
                said = record.get("message", line) if isinstance(record, dict) else line
                self._said.append(str(said).strip().removeprefix("guepard: error: "))
        self._told.set()

    def _last_words(self) -> str:
        return " | ".join(list(self._said)[-3:]) or "it said nothing"

    def _stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stderr is not None:
            self._process.stderr.close()
