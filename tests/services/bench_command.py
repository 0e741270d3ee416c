"""`guepard bench` as a command: one that ends by itself, and one that is ended in the middle."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from guepard.measure import result_file
from guepard.measure.results import Document, Run
from guepard.measure.validity import GENERATOR_CODES
from tests.services.waiting import wait_until

_LIMIT_S = 60.0
_TRIES = 4


class BenchResult(NamedTuple):
    """`document` is None where nothing was measured, or was not printed as JSON."""

    code: int
    document: Document | None
    stdout: str
    stderr: str

    @property
    def run(self) -> Run:
        """The first run."""
        assert self.document is not None, self.stderr
        return self.document.runs[0]


def run_bench(*arguments: str | Path) -> BenchResult:
    """The command, from its start to its end, which no traceback may show."""
    with BenchCommand(*arguments) as command:
        return command.ending()


def undisturbed(measure: Callable[[], BenchResult], *, pardoned: frozenset[str] = frozenset()) -> BenchResult:
    """Measured again as long as nothing but the machine is blamed, which has other things to do while tests run.

    `pardoned`: findings that those other things may cause as well.
    """
    for _ in range(_TRIES - 1):
        result = measure()
        found = codes(result.run)
        if not found or found - GENERATOR_CODES - pardoned:
            return result
    return measure()


def codes(run: Run, severity: str = "invalid") -> frozenset[str]:
    """Of the run's findings."""
    return frozenset(finding.code for finding in run.findings if finding.severity == severity)


class BenchCommand:
    """The command as a child process with a process group of its own, as a terminal starts it."""

    def __init__(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "guepard", "bench", *map(str, arguments)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
        )

    def __enter__(self) -> "BenchCommand":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def interrupt(self) -> None:
        """As Ctrl-C in a terminal does: every process of the group gets it."""
        os.killpg(self._process.pid, signal.SIGINT)

    def send(self, number: int) -> None:
        """To the command alone."""
        self._process.send_signal(number)

    def ending(self, limit_s: float = _LIMIT_S) -> BenchResult:
        """Raises: AssertionError if it does not end in time, or with a traceback."""
        try:
            stdout, stderr = self._process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            stdout, stderr = self._process.communicate()
            raise AssertionError(f"it did not end within {limit_s} s:\n{stdout}\n{stderr}") from None
        assert "Traceback" not in stderr, stderr
        document = result_file.parse(stdout.encode(), "stdout") if stdout.startswith("{") else None
        return BenchResult(self._process.returncode, document, stdout, stderr)

    def children(self) -> dict[int, str]:
        """Command lines of the processes that it has started, by process id."""
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and _parent_of(int(folder.name)) == self.pid:
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found


def is_running(pid: int) -> bool:
    """A zombie that nobody has waited for has ended too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_end(pids: list[int], timeout_s: float = 10.0) -> None:
    """Raises: AssertionError if one of the processes stays."""
    deadline = time.monotonic() + timeout_s
    wait_until(lambda: not any(map(is_running, pids)), max(0.01, deadline - time.monotonic()))


def _parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
