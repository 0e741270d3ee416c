"""How `guepard bench` ends: by Ctrl-C, by a signal, by itself; and what it leaves behind."""

import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from guepard.measure import result_file
from tests.services import onnx_models
from tests.services.bench_command import BenchCommand, run_bench, wait_for_end
from tests.services.known_behaviours import Dying, Errors, Sleep
from tests.services.known_servers import KnownServer
from tests.services.waiting import wait_until

LOAD = ("--rate", "1000", "--warmup", "0s", "--no-self-test", "--json")
LONG = ("--protocol", "http", *LOAD, "--duration", "50s")
INTERRUPTED = (130, -signal.SIGINT)
"""The second is 130 to a shell."""


def started(command: BenchCommand) -> list[int]:
    """The processes that it has started, once it sends."""
    command.wait_until_said("open loop")
    found = [*command.children()]
    assert found
    return found


def test_ctrl_c_gives_the_report_of_what_was_measured(tmp_path: Path) -> None:
    out, report = tmp_path / "result.json", tmp_path / "report.html"
    with KnownServer(Sleep(ms=200)) as server:
        with BenchCommand(server.url, *LONG, "--out", out, "--report", report) as command:
            children = started(command)
            command.interrupt()
            result = command.ending()
        wait_for_end(children)
        seen = server.stop()
    assert result.code == 130
    assert result.document is not None
    assert result.document.interrupted
    run = result.run
    # What was under way has ended: what was due is counted once, and nothing that was never sent.
    assert 10 <= run.offered < 40_000
    assert (run.failed, run.latency.count) == (0, run.offered)
    assert run.latency.min_ms >= 199
    assert run.window.end_s < 40
    assert seen is not None
    assert 1 <= seen.answered - run.offered <= 5, "beside the load there are the first request and the metrics"
    assert result_file.read(out) == result.document
    assert result_file.read(report) == result.document
    assert report.read_text().rstrip().endswith("</html>")


def test_ctrl_c_again_ends_at_once() -> None:
    with (
        KnownServer(Errors(kind="silence", share=0.5, ms=1)) as server,
        BenchCommand(server.url, *LONG, "--timeout", "40s") as command,
    ):
        children = started(command)
        for _ in range(5):
            command.interrupt()
            # The first one waits for what is under way, for 40 s.
            with suppress(AssertionError):
                wait_until(lambda: command.has_ended, 0.5)
                break
        result = command.ending(5.0)
        wait_for_end(children)
    assert result.code in INTERRUPTED
    assert result.stdout == ""


def test_ctrl_c_before_anything_was_measured() -> None:
    dumb = Dying(after_s=0.0, ending="silence", ms=60_000)
    with KnownServer(dumb) as server, BenchCommand(server.url, *LONG) as command:
        # The first request has no answer yet.
        wait_until(lambda: is_connected(server.port), 20.0)
        command.interrupt()
        result = command.ending(20.0)
    assert (result.code, result.stdout) == (130, "")
    assert result.stderr == "guepard bench: interrupted, with nothing measured that could be told\n"


def is_connected(port: int) -> bool:
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    established = "01"
    return any(row.split()[1].endswith(f":{port:04X}") and row.split()[3] == established for row in rows)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_behind_whatever_ends_the_command(number: signal.Signals) -> None:
    with (
        KnownServer(Sleep(ms=10)) as server,
        BenchCommand(server.url, *LONG, "--processes", "2") as command,
    ):
        children = started(command)
        assert len(children) == 2
        command.send(number)
        command.ending(10.0)
        wait_for_end(children)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_model_is_not_served_for_longer_than_the_command_lives(models: Path, number: signal.Signals) -> None:
    model = onnx_models.write_model(models / "double.onnx", onnx_models.double())
    with BenchCommand(model, *LOAD, "--duration", "50s") as command:
        children = started(command)
        assert any(" serve " in line for line in command.children().values())
        if number == signal.SIGINT:
            command.interrupt()
        else:
            command.send(number)
        result = command.ending(20.0)
        wait_for_end(children)
    if number == signal.SIGINT:
        assert result.code == 130
        assert result.document is not None
        assert result.document.interrupted


def test_a_result_goes_round_whole(tmp_path: Path) -> None:
    out, report = tmp_path / "result.json", tmp_path / "report.html"
    with KnownServer(Sleep(ms=5)) as server:
        options = ("--protocol", "http", *LOAD, "--duration", "0.5s", "--out", out, "--report", report)
        result = run_bench(server.url, *options, "--header", "Authorization: Bearer secret-word")
    assert result.document is not None
    assert result_file.read(out) == result.document
    assert result_file.read(report) == result.document
    assert out.read_text() == result.stdout
    assert "secret-word" not in result.stdout + result.stderr + report.read_text()
    assert result.document.command[:2] == ("guepard", "bench")


def test_a_result_of_a_newer_version_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    newer = tmp_path / "newer.json"
    newer.write_text('{"format": "guepard-bench", "version": 2, "guepard": "9.1", "runs": "in another form"}')
    with KnownServer(Sleep()) as server:
        result = run_bench(server.url, "--protocol", "http", *LOAD, "--duration", "0.5s", "--gate", newer)
        seen = server.stop()
    assert (result.code, result.stdout) == (2, "")
    assert "guepard 9.1" in result.stderr
    assert "version 2" in result.stderr
    assert "upgrade" in result.stderr
    assert seen is not None
    assert seen.requests == 0


def test_ctrl_c_in_the_self_test_ends_the_command_and_not_the_self_test_alone() -> None:
    with (
        KnownServer(Sleep()) as server,
        BenchCommand(server.url, "--protocol", "http", "--rate", "10", "--duration", "1h") as command,
    ):
        wait_until(lambda: any("null_server" in line for line in command.children().values()), 30.0)
        command.interrupt()
        result = command.ending(10.0)
    assert result.code in INTERRUPTED
    assert result.document is None


@pytest.mark.parametrize("output", ["--json", "--seed=1"])
def test_a_reader_that_goes_away_is_no_fault(output: str) -> None:
    result = _to_shell("| true", output)
    assert "Traceback" not in result.stderr
    assert "Broken pipe" not in result.stderr


def test_a_full_disk_behind_stdout_is_said() -> None:
    result = _to_shell("> /dev/full")
    assert result.returncode == 1
    assert "cannot write to stdout: No space left on device" in result.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_fault(closed: str) -> None:
    result = _to_shell(closed, "--max-errors", "1%")
    assert "Traceback" not in result.stdout + result.stderr
    assert "Exception" not in result.stdout + result.stderr


def _to_shell(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A short measurement, its streams redirected by a shell."""
    with KnownServer(Sleep()) as server:
        words = [sys.executable, "-m", "guepard", "bench", server.url, "--protocol", "http", "--body", "x"]
        words += ["--rate", "50", "--duration", "200ms", "--no-self-test", *arguments]
        return subprocess.run(
            ["bash", "-c", f"{shlex.join(words)} {redirection}"], capture_output=True, text=True, timeout=60
        )
