"""How a log record becomes text: a line for people or a JSON object for machines.

Whatever a client sent, it can neither start a record of its own nor reach a terminal's escape sequences: every
character that is not printable is escaped. One record is one line; only the console format lets a traceback span
several, each of them marked, so that none can be taken for a record.
"""

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

MESSAGE_LIMIT = 8_192
TRACEBACK_LIMIT = 32_768

RESERVED = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
_BARE_VALUE = re.compile(r"""[^\s"'=\\]+""")
_COLOURS = {
    logging.DEBUG: "\x1b[2m",
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[31;1m",
}
_NO_COLOUR = "\x1b[0m"


def escape(text: str) -> str:
    """`text` with each unprintable character written as its escape: line breaks, controls, lone surrogates."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class JsonFormatter(logging.Formatter):
    """One JSON object per line, in ASCII: ts, level, logger, message, then the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "ts": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        for key, value in own_fields(record).items():
            document.setdefault(key, value)
        traceback = _traceback(self, record)
        if traceback:
            document["exception"] = traceback
        try:
            return json.dumps(document, default=str, allow_nan=False)
        except (TypeError, ValueError):
            # Not a number, a circular value or a key that JSON lacks: the record matters more than their exact type.
            return json.dumps({str(key): str(value) for key, value in document.items()})


class ConsoleFormatter(logging.Formatter):
    """Time, level and message in columns, then key=value."""

    def __init__(self, is_coloured: bool) -> None:
        super().__init__()
        self._is_coloured = is_coloured

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower():<8}"
        if self._is_coloured:
            level = f"{_COLOURS.get(record.levelno, '')}{level}{_NO_COLOUR}"
        fields = "".join(f" {key}={_console_value(value)}" for key, value in own_fields(record).items())
        line = f"{_timestamp(record)} {level} {record.name:<16} {escape(_message(record))}{fields}"
        traceback = _traceback(self, record)
        return "\n    | ".join((line, *map(escape, traceback.splitlines())))


def _timestamp(record: logging.LogRecord) -> str:
    """RFC 3339, UTC, with milliseconds."""
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _message(record: logging.LogRecord) -> str:
    try:
        message = record.getMessage()
    except Exception:  # arguments that do not fit their message must not cost the record
        message = str(record.msg)
    return message if len(message) <= MESSAGE_LIMIT else message[:MESSAGE_LIMIT] + "…"


def own_fields(record: logging.LogRecord) -> Mapping[str, Any]:
    """What was given to the record as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in RESERVED}


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Its end, which names the error, if the whole is too long."""
    return formatter.formatException(record.exc_info)[-TRACEBACK_LIMIT:] if record.exc_info else ""


def _console_value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, Mapping):
        value = ",".join(f"{key}:{_console_value(item)}" for key, item in value.items())
    text = escape(str(value))
    return text if _BARE_VALUE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
