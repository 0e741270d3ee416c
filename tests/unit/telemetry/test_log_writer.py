"""The writer thread: what is logged arrives, and a stuck reader stops nobody."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import pytest

from guepard.telemetry.logging import LogFormat, LogWriter, configure

logger = logging.getLogger("guepard.test")


@dataclass
class Pipe:
    """Both ends of a pipe; what is logged goes into one of them."""

    reader: io.BufferedReader
    stream: TextIO
    writers: list[LogWriter] = field(default_factory=list)

    def configure(self, log_format: LogFormat = "json") -> LogWriter:
        self.writers.append(configure("info", log_format, self.stream))
        return self.writers[-1]

    def lines(self) -> list[str]:
        """Everything that was written, once the stream is closed at its other end."""
        self.stream.close()
        return [line.decode() for line in self.reader]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    read_end, write_end = os.pipe()
    with ExitStack() as stack:
        reader = stack.enter_context(os.fdopen(read_end, "rb"))
        opened = Pipe(reader, stack.enter_context(os.fdopen(write_end, "w")))
        yield opened
        reader.close()  # frees a writer that is still stuck
        for writer in opened.writers:
            assert writer.shutdown(timeout_s=30)


def test_what_is_logged_arrives_in_order(pipe: Pipe) -> None:
    writer = pipe.configure()
    for n in range(200):
        logger.info("number %d", n, extra={"n": n})
    logger.debug("below the level")
    assert writer.shutdown()
    assert [json.loads(line)["n"] for line in pipe.lines()] == list(range(200))
    assert writer.dropped() == 0


def test_a_client_cannot_add_lines(pipe: Pipe) -> None:
    writer = pipe.configure("console")
    logger.info("path %s", "/a\n2030-01-01T00:00:00.000Z error    forged", extra={"id": "1\r\n2"})
    assert writer.shutdown()
    (line,) = pipe.lines()
    assert line.endswith('id="1\\\\r\\\\n2"\n')
    assert "\x1b" not in line


def test_a_stuck_reader_stops_nobody_and_the_loss_is_counted_exactly(pipe: Pipe) -> None:
    writer = pipe.configure()
    sent = 2_000
    for n in range(sent):  # 8 MB into a pipe of 64 KiB that nobody reads
        logger.info("%d %s", n, "x" * 4_000)
    dropped = writer.dropped()
    assert 0 < dropped < sent
    assert not writer.shutdown(timeout_s=0.05)

    received = []
    while "missing" not in (line := json.loads(pipe.reader.readline())["message"]):
        received.append(int(line.split()[0]))
    assert received == list(range(sent - dropped))
    assert line.startswith(f"{dropped} log records are missing here")
    assert writer.shutdown(timeout_s=30)


def test_a_reader_that_left_is_counted(pipe: Pipe) -> None:
    writer = pipe.configure()
    pipe.reader.close()
    logger.info("to nobody")
    assert writer.shutdown(timeout_s=30)
    assert writer.dropped() == 1


def test_a_closed_stream_is_never_mistaken_for_what_took_its_descriptor(pipe: Pipe, tmp_path: Path) -> None:
    writer = pipe.configure()
    descriptor = pipe.stream.fileno()
    pipe.stream.close()
    other = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
    os.dup2(other, descriptor)
    try:
        logger.info("not for this file")
        assert writer.shutdown(timeout_s=30)
    finally:
        for number in {other, descriptor}:
            os.close(number)
    assert (tmp_path / "other").read_bytes() == b""
    assert writer.dropped() == 1


def test_a_field_without_text_loses_its_record_only(pipe: Pipe) -> None:
    class Wordless:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    writer = pipe.configure()
    logger.info("lost", extra={"field": Wordless()})
    logger.info("kept")
    assert writer.shutdown()
    assert writer.dropped() == 1
    assert json.loads(pipe.lines()[0])["message"] == "kept"


def test_a_non_blocking_stream_gets_whole_lines(pipe: Pipe) -> None:
    os.set_blocking(pipe.stream.fileno(), False)
    writer = pipe.configure()
    for n in range(100):
        logger.info("%d %s", n, "x" * 4_000)
    received = [json.loads(pipe.reader.readline())["message"].split()[0] for _ in range(100)]
    assert received == [str(n) for n in range(100)]
    assert writer.shutdown()


def test_a_stream_without_a_descriptor_is_written_as_text() -> None:
    stream = io.StringIO()
    writer = configure("info", "json", stream)
    logger.info("héllo")
    assert writer.shutdown()
    assert json.loads(stream.getvalue())["message"] == "héllo"


def test_shutdown_leaves_logging_as_it_was(pipe: Pipe) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    writer = pipe.configure()
    assert root.handlers != handlers
    assert writer.shutdown()
    assert writer.shutdown()
    assert (root.handlers, root.level) == (handlers, level)


def test_importing_configures_nothing() -> None:
    program = "import logging, guepard.telemetry.logging; assert not logging.getLogger().handlers"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_process_ends_though_its_log_is_stuck() -> None:
    program = (
        "import sys, logging\n"
        "from guepard.telemetry.logging import configure\n"
        "writer = configure('info', 'json', sys.stderr)\n"
        "for _ in range(100): logging.info('x' * 4_000)\n"
        "assert not writer.shutdown(timeout_s=0.05)\n"
    )
    read_end, write_end = os.pipe()
    try:
        done = subprocess.run([sys.executable, "-c", program], stderr=write_end, timeout=60, check=False)
    finally:
        os.close(write_end)
        os.close(read_end)
    assert done.returncode == 0
