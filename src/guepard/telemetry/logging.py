"""Logging that never waits for whoever reads the log.

Records are formatted where they are made and handed to one writer thread through a queue that is bounded in bytes. When
the reader of the log is stuck, the queue fills, further records are dropped and counted, and the server goes on; once
the reader is back, a line says how many are missing.
"""

import logging
import os
import select
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Literal, TextIO

from guepard.telemetry.log_format import ConsoleFormatter, JsonFormatter

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["console", "json"]

TRACE_LOGGER = "guepard.trace"

PENDING_BYTES_LIMIT = 4 * 1024 * 1024
_LINE_OVERHEAD_BYTES = 64

# The writer wakes once per pause rather than once per line: every wake-up takes the interpreter lock from the loop's
# thread, which under load cost more than all the rest of logging.
_PAUSE_S = 0.02
_LINES_PER_WRITE = 64

_logger = logging.getLogger("guepard.log")


def configure(level: LogLevel, log_format: LogFormat, stream: TextIO) -> "LogWriter":
    """Send all logging of this process, at `level` and above, to `stream`. Undone by the writer's `shutdown`."""
    formatter = JsonFormatter() if log_format == "json" else ConsoleFormatter(is_coloured=stream.isatty())
    root = logging.getLogger()
    writer = LogWriter(stream, formatter, root.level)
    root.addHandler(writer)
    root.setLevel(level.upper())
    logging.getLogger(TRACE_LOGGER).setLevel(logging.INFO)  # whoever asks for traces gets them at any level
    return writer


class LogWriter(logging.Handler):
    """The handler that `configure` installs, its queue and its thread.

    The counters have one writer each, so that none needs a lock: what `emit` counts is guarded by the handler's own
    lock, the rest belongs to the thread.
    """

    def __init__(self, stream: TextIO, formatter: logging.Formatter, outer_level: int) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._sink = _open_sink(stream)
        self._outer_level = outer_level
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._accepted_bytes = 0
        self._written_bytes = 0
        self._refused = 0
        self._unwritten = 0
        self._reported = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write_lines, name="guepard-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one record, or drop it. Cost: formatting; never waits."""
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        except Exception:  # a field whose text cannot be had, say; logging must not fail its caller
            self._refused += 1
            return
        size = len(line) + _LINE_OVERHEAD_BYTES
        if self._accepted_bytes - self._written_bytes + size > PENDING_BYTES_LIMIT:
            self._refused += 1
            return
        self._accepted_bytes += size
        self._lines.put(line)

    def dropped(self) -> int:
        """How many records never reached the stream."""
        return self._refused + self._unwritten

    def shutdown(self, timeout_s: float = 2.0) -> bool:
        """Write what is queued, for at most `timeout_s`, and take the handler out. True if everything was written."""
        root = logging.getLogger()
        if self in root.handlers:
            root.removeHandler(self)
            root.setLevel(self._outer_level)
            logging.getLogger(TRACE_LOGGER).setLevel(logging.NOTSET)
            self._stopping.set()
            self._lines.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _write_lines(self) -> None:
        ended = False
        while not ended and (line := self._lines.get()) is not None:
            self._stopping.wait(_PAUSE_S)
            lines = [line]
            with suppress(Empty):
                while (line := self._lines.get_nowait()) is not None:
                    lines.append(line)
                ended = True
            for start in range(0, len(lines), _LINES_PER_WRITE):
                some = lines[start : start + _LINES_PER_WRITE]
                self._write(some)
                self._written_bytes += sum(map(len, some)) + _LINE_OVERHEAD_BYTES * len(some)
            if self._lines.empty():
                self._report_refused()
        self._report_refused()

    def _write(self, lines: list[bytes]) -> None:
        try:
            self._sink.write(b"".join(lines))
        except (OSError, ValueError):  # the reader is gone, or the stream was closed under us
            self._unwritten += len(lines)

    def _report_refused(self) -> None:
        count = self._refused - self._reported
        if count:
            text = "%d log records are missing here: they came faster than the log was read, or had no text"
            record = _logger.makeRecord(_logger.name, logging.WARNING, __file__, 0, text, (count,), None)
            self._write([self.format(record).encode() + b"\n"])
            self._reported += count


class _DescriptorSink:
    """Writes past Python's own buffers: a lock held there by a stuck thread would abort the interpreter's exit.

    The descriptor is asked for each time: once the stream is closed, its number may belong to a client's socket.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            descriptor = self._stream.fileno()
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:  # whoever shares the terminal may have made it non-blocking
                poll = select.poll()
                poll.register(descriptor, select.POLLOUT)
                poll.poll()


class _TextSink:
    """For streams without a descriptor, such as one that a program put in the place of `sys.stderr`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, line: bytes) -> None:
        self._stream.write(line.decode())
        self._stream.flush()


def _open_sink(stream: TextIO) -> _DescriptorSink | _TextSink:
    try:
        stream.fileno()
    except (OSError, AttributeError):
        return _TextSink(stream)
    return _DescriptorSink(stream)
