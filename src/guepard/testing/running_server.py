"""A real `guepard serve` as a child process, on ports the system chose."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

_READY_S = 30.0
_STOP_S = 40.0


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RunningServer:
    """Starts on entry, once it says that it serves; ends by SIGTERM on exit. Records of its log are in `records()`.

    `prefix` are words before the command, of a program that becomes it.
    """

    def __init__(
        self,
        *arguments: str | Path,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self._log = tempfile.NamedTemporaryFile("w+b", prefix="guepard-", suffix=".log")  # noqa: SIM115
        command = [*prefix, sys.executable, "-m", "guepard", "serve", *map(str, arguments)]
        command += ["--http-port", "0", "--metrics-port", "0", "--log-format", "json"]
        if "--grpc-port" not in arguments:
            command += ["--grpc-port", "0"]
        self.process = subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.DEVNULL, stderr=self._log, cwd=cwd, env=os.environ | (env or {})
        )
        self.http_port = 0
        self.grpc_port = 0
        self.metrics_port = 0

    def __enter__(self) -> "RunningServer":
        try:
            record = self.wait_for_record("is serving on")
        except BaseException:
            self.stop()
            raise
        self.http_port = record["http_port"]
        self.metrics_port = record["metrics_port"]
        self.grpc_port = record.get("grpc_port", 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """`host:port` of the API, as tritonclient wants it."""
        return f"127.0.0.1:{self.http_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def grpc_address(self) -> str:
        """`host:port` of the gRPC API."""
        return f"127.0.0.1:{self.grpc_port}"

    def log_text(self) -> str:
        return Path(self._log.name).read_text(errors="replace")

    def records(self) -> list[dict[str, Any]]:
        """What the server has logged so far, one dict a line; lines that are not JSON become {"raw": line}."""
        found = []
        for line in self.log_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"raw": line})
        return found

    def wait_for_record(self, fragment: str, timeout_s: float = _READY_S) -> dict[str, Any]:
        """The first log record whose text holds `fragment`. Raises: AssertionError with the log."""
        deadline = time.monotonic() + timeout_s
        while True:
            for record in self.records():
                if fragment in json.dumps(record):
                    return record
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log_text()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {fragment!r} within {timeout_s} s:\n{self.log_text()}")
            time.sleep(0.01)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | str | dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        *,
        port: int | None = None,
        timeout_s: float = 30.0,
    ) -> Answer:
        """One HTTP request on a connection of its own. A dict is sent as JSON."""
        data = json.dumps(body) if isinstance(body, dict) else body
        request = urllib.request.Request(
            f"http://127.0.0.1:{port or self.http_port}{path}",
            data=data.encode() if isinstance(data, str) else data,
            method=method,
            headers={"Content-Type": "application/json"} | (headers or {}),
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
                return Answer(answer.status, _lower(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _lower(error.headers), error.read())

    def infer(self, model: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Answer:
        return self.request("POST", f"/v2/models/{model}/infer", body, headers)

    def metrics(self) -> str:
        return self.request("GET", "/metrics", port=self.metrics_port).body.decode()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the server and return its exit code; one that does not end is killed, which is an AssertionError."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not stop:\n{self.log_text()}") from None


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
