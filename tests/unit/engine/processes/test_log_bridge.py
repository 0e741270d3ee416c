"""Records of a process as its server logs them."""

import logging
import socket
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from guepard.engine.processes.log_bridge import BridgeHandler, RemoteError, remote_error, write
from guepard.transport.channel import Channel
from guepard.transport.frames import FromWorker, Record


@pytest.fixture
def bridge() -> Iterator[tuple[logging.Logger, Channel[Any]]]:
    """A logger whose records leave over a channel, and its other end."""
    mine, theirs = socket.socketpair()
    logger = logging.Logger("a.model", logging.DEBUG)  # noqa: LOG001 - one that nobody else has
    logger.addHandler(BridgeHandler(Channel(mine, FromWorker)))
    channel: Channel[Any] = Channel(theirs, FromWorker)
    yield logger, channel
    channel.close()
    mine.close()


def test_a_record_comes_through_with_its_fields(
    bridge: tuple[logging.Logger, Channel[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    logger, channel = bridge
    fields = {"n": 1, "share": 0.5, "flag": True, "none": None, "huge": 2**70, "path": [1], "odd": "\udcff"}
    logger.warning("%d rows \udcff", 3, extra=fields)
    write(channel.receive())
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == ("a.model", "WARNING", "3 rows ?")
    assert {name: vars(record)[name] for name in fields} == fields | {"huge": str(2**70), "path": "[1]", "odd": "?"}


class Remembered(logging.Handler):
    """Tracebacks as the handlers of this process write them."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        assert record.exc_info is not None
        self.traces.append(logging.Formatter().formatException(record.exc_info))


@pytest.mark.parametrize(
    "error",
    [
        LookupError("what was raised"),
        KeyError(),
        ValueError("of\ntwo: lines"),
        RuntimeError("ends with a colon: "),
        ExceptionGroup("many", [ValueError("one: 1"), TypeError("two")]),
        type("Guepard", (Exception,), {"__module__": "zoo.cats"})("purrs"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_traceback_reads_as_one_of_this_process_would(
    bridge: tuple[logging.Logger, Channel[Any]], error: Exception
) -> None:
    logger, channel = bridge
    here, there = Remembered(), Remembered()
    logger.addHandler(here)
    try:
        raise error
    except Exception:
        logger.exception("it failed")
    parent = logging.getLogger("a.model")
    parent.addHandler(there)
    try:
        write(channel.receive())
    finally:
        parent.removeHandler(there)
    assert "test_log_bridge.py" in there.traces[0]
    assert there.traces == [here.traces[0].rstrip()]


def test_an_error_from_there_has_the_text_that_it_had_there() -> None:
    trace = "Traceback (most recent call last):\n  File x\nLookupError: too large: 101\n"
    error = remote_error(trace)
    assert (str(error), repr(error), isinstance(error, RemoteError)) == (
        "too large: 101",
        "RemoteError('too large: 101')",
        True,
    )
    assert "".join(traceback.format_exception(error)) == trace


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError


def test_records_that_are_no_good(bridge: tuple[logging.Logger, Channel[Any]]) -> None:
    logger, channel = bridge
    logger.info("%d", "no number", extra={"bad": Unprintable()})
    assert channel.receive() == Record("a.model", logging.INFO, "%d", "", {"bad": "Unprintable"})


def test_a_record_that_is_too_large_is_lost_alone(
    bridge: tuple[logging.Logger, Channel[Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger, channel = bridge
    (handler,) = logger.handlers
    assert isinstance(handler, BridgeHandler)
    monkeypatch.setattr(handler._control, "_largest_bytes", 1_000)
    logger.info("x" * 2_000)
    assert "Logging error" in capsys.readouterr().err
    logger.info("next")
    assert channel.receive().text == "next"


def test_a_level_that_the_server_does_not_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        write(Record("a", logging.INFO, "no", ""))
    assert not caplog.records


def test_fields_that_are_a_record_s_own_do_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    write(Record("a", logging.ERROR, "yes", "", {"message": "x", "levelno": 3, "args": None, "mine": 1}))
    (record,) = caplog.records
    assert (record.getMessage(), record.levelno, vars(record)["mine"]) == ("yes", logging.ERROR, 1)


def test_nobody_listens(bridge: tuple[logging.Logger, Channel[Any]], capsys: pytest.CaptureFixture[str]) -> None:
    logger, channel = bridge
    channel.close()
    logger.info("into the void")
    assert not capsys.readouterr().err
    assert sys.exc_info() == (None, None, None)
