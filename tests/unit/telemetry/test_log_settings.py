"""Triton's logging extension as plain dicts: what is written after each change, and what is refused whole."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from guepard.core.errors import GuepardError, InputError, PermissionDenied, Unsupported
from guepard.telemetry.log_settings import LogSettings
from guepard.telemetry.logging import TRACE_LOGGER, LogLevel, LogWriter, configure

logger = logging.getLogger("guepard.test")

LEVELS = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
    logging.ERROR: "error",
    logging.CRITICAL: "critical",
}


class Log:
    """A log whose settings are changed. `written` says which levels reach it."""

    def __init__(self, level: LogLevel) -> None:
        self._stream = io.StringIO()
        self.writer = configure(level, "json", self._stream)
        self.settings = LogSettings(level, self.writer)

    def end(self) -> None:
        assert self.writer.shutdown(timeout_s=30)

    def written(self) -> list[str]:
        """Ends the log."""
        for number in LEVELS:
            logger.log(number, "at %d", number)
        logging.getLogger(TRACE_LOGGER).info("trace")
        self.end()
        records = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        assert [record["level"] for record in records if record["logger"] == TRACE_LOGGER] == ["info"]
        return [record["level"] for record in records if record["logger"] == logger.name]


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log("info")
    yield log
    log.end()


@pytest.mark.parametrize(
    ("level", "on"),
    [
        ("debug", (True, True, True, 1)),
        ("info", (True, True, True, 0)),
        ("warning", (False, True, True, 0)),
        ("error", (False, False, True, 0)),
    ],
)
def test_they_begin_as_configured(level: LogLevel, on: tuple[Any, ...]) -> None:
    names = ("log_info", "log_warning", "log_error", "log_verbose_level")
    expected = {"log_file": "", **dict(zip(names, on, strict=True)), "log_format": "default"}
    log = Log(level)
    assert log.settings.settings() == expected
    assert log.settings.update({}) == expected
    least = next(number for number, name in LEVELS.items() if name == level)
    assert log.written() == [name for number, name in LEVELS.items() if number >= least]


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"log_info": False}, ["warning", "error", "critical"]),
        ({"log_warning": False}, ["info", "error", "critical"]),
        ({"log_error": False}, ["info", "warning"]),
        ({"log_verbose_level": 3}, ["debug", "info", "warning", "error", "critical"]),
        ({"log_verbose_level": 1, "log_info": False}, ["debug", "warning", "error", "critical"]),
        ({"log_info": False, "log_warning": False, "log_error": False}, []),
    ],
)
def test_each_level_goes_and_comes_back(log: Log, changes: dict[str, Any], left: list[str]) -> None:
    before = log.settings.settings()
    assert log.settings.update(changes) == before | changes
    log.settings.update(before)
    assert log.settings.settings() == before
    log.settings.update(changes)
    assert log.written() == left


def test_records_that_nobody_wants_are_not_made(log: Log) -> None:
    log.settings.update({"log_info": False})
    assert not logger.isEnabledFor(logging.INFO)
    log.settings.update({"log_info": True})
    assert logger.isEnabledFor(logging.INFO)


@pytest.mark.parametrize("changes", [{"log_file": ""}, {"log_format": "ISO8601"}, {"log_verbose_level": 2**32 - 1}])
def test_what_is_taken_is_shown(log: Log, changes: dict[str, Any]) -> None:
    assert log.settings.update(changes).items() >= changes.items()


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"log_file": "/etc/passwd"}, PermissionDenied, "log_file: no route sets a path"),
        ({"log_file": None}, InputError, "log_file: expected a string, got None"),
        ({"log_info": 1}, InputError, "log_info: expected true or false, got 1"),
        ({"log_info": "true"}, InputError, "log_info: expected true or false"),
        ({"log_warning": None}, InputError, "log_warning"),
        ({"log_error": {"a": [1]}}, InputError, "log_error"),
        ({"log_verbose_level": True}, InputError, "log_verbose_level: expected an integer from 0"),
        ({"log_verbose_level": -1}, InputError, "log_verbose_level"),
        ({"log_verbose_level": 2**64}, InputError, "log_verbose_level"),
        ({"log_verbose_level": 1.0}, InputError, "log_verbose_level"),
        ({"log_format": "iso8601"}, InputError, "log_format: expected one of default, ISO8601, got 'iso8601'"),
        ({"log_format": ["default"]}, InputError, "log_format"),
        ({"log_level": "info"}, InputError, "log_level: no such log setting; there are log_file, log_info"),
        ({"x" * 100_000: 1}, InputError, "no such log setting"),
        ({"log_info": list(range(100_000))}, InputError, "log_info"),
    ],
)
def test_of_a_refused_change_nothing_takes_effect(
    log: Log, changes: dict[str, Any], kind: type[GuepardError], words: str
) -> None:
    before = log.settings.settings()
    with pytest.raises(kind) as caught:
        log.settings.update({"log_warning": False, **changes} if "log_warning" not in changes else changes)
    assert words in caught.value.message
    assert len(caught.value.message) < 300
    assert log.settings.settings() == before
    assert log.written() == ["info", "warning", "error", "critical"]


def test_a_log_of_the_program_around_is_left_alone() -> None:
    level = logging.getLogger().level
    settings = LogSettings("info", None)
    with pytest.raises(Unsupported, match="belongs to the program"):
        settings.update({"log_info": False})
    assert settings.settings()["log_info"] is True
    assert logging.getLogger().level == level


def test_the_end_of_the_log_leaves_nothing_behind() -> None:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    log = Log("warning")
    log.settings.update({"log_verbose_level": 1})
    log.end()
    assert (root.level, root.handlers) == (level, handlers)
    assert logging.getLogger(TRACE_LOGGER).level == logging.NOTSET
    assert not any(isinstance(handler, LogWriter) for handler in root.handlers)
