"""`guepard bench` as a command: one that ends by itself, and one that is ended in the middle."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from guepard.measure import result_file
from guepard.measure.results import Document, Run
from guepard.measure.validity import GENERATOR_CODES
from tests.services.waiting import wait_until

_LIMIT_S = 60.0
_TRIES = 3


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
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._errors, text=True, process_group=0
        )

    def __enter__(self) -> "BenchCommand":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
        self._errors.close()

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
            stdout, _ = self._process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            stdout, _ = self._process.communicate()
            raise AssertionError(f"it did not end within {limit_s} s:\n{stdout}\n{self.said()}") from None
        stderr = self.said()
        assert "Traceback" not in stderr, stderr
        document = result_file.parse(stdout.encode(), "stdout") if stdout.startswith("{") else None
        return BenchResult(self._process.returncode, document, stdout, stderr)

    def said(self) -> str:
        """What stands on stderr so far."""
        return os.pread(self._errors.fileno(), 1 << 20, 0).decode(errors="replace")

    def wait_until_said(self, text: str, timeout_s: float = 30.0) -> None:
        """Raises: AssertionError if it ends before, or does not say it in time."""
        wait_until(lambda: text in self.said() or self.has_ended, timeout_s)
        assert text in self.said(), self.said()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

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


def wait_for_end(pids: Iterable[int], timeout_s: float = 10.0) -> None:
    """Raises: AssertionError if one of the processes stays."""
    left = [*pids]
    wait_until(lambda: not any(map(is_running, left)), timeout_s)


def _parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
