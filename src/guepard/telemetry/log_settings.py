"""What is logged, changed while the server runs: Triton's `logging` extension as plain dicts."""

import logging
from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any

from guepard.core.errors import InputError, PermissionDenied, Unsupported
from guepard.telemetry.logging import TRACE_LOGGER, LogLevel, LogWriter

_LEVEL_SWITCHES = {"log_info": logging.INFO, "log_warning": logging.WARNING, "log_error": logging.ERROR}
_FORMATS = ("default", "ISO8601")
_MAX_VERBOSE = 2**32 - 1
_SILENT = logging.CRITICAL + 1


class LogSettings:
    """Which records `writer` writes. `level` is what the configuration says. For the event loop's thread alone.

    `writer` None: the program around the server owns the log, and nothing is to be changed from here.
    Traces are asked for by settings of their own and are written whatever these say.
    """

    def __init__(self, level: LogLevel, writer: LogWriter | None) -> None:
        least = logging.getLevelNamesMapping()[level.upper()]
        self._settings: dict[str, Any] = {
            "log_file": "",
            **{field: least <= number for field, number in _LEVEL_SWITCHES.items()},
            "log_verbose_level": int(least <= logging.DEBUG),
            "log_format": "default",
        }
        self._writer = writer
        if writer is not None:
            writer.addFilter(self._allows)

    def settings(self) -> dict[str, Any]:
        return dict(self._settings)

    def update(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The settings after `changes`, of which all or none take effect.

        Raises: InputError naming the field, PermissionDenied for a file, Unsupported where the log is not ours.
        """
        for field, value in changes.items():
            self._check(field, value)
        if self._writer is None and changes:
            raise Unsupported("the log belongs to the program that this server runs in; change it there")
        self._settings.update(changes)
        if changes:
            logging.getLogger().setLevel(self._least())
        return self.settings()

    def _check(self, field: str, value: object) -> None:
        if field == "log_file":
            if not isinstance(value, str):
                raise InputError(f"log_file: expected a string, got {shortened(value)}")
            if value:
                raise PermissionDenied("log_file: no route sets a path on the server; its log is what stderr gets")
        elif field in _LEVEL_SWITCHES:
            if not isinstance(value, bool):
                raise InputError(f"{field}: expected true or false, got {shortened(value)}")
        elif field == "log_verbose_level":
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_VERBOSE:
                raise InputError(f"{field}: expected an integer from 0 to {_MAX_VERBOSE}, got {shortened(value)}")
        elif field == "log_format":
            if value not in _FORMATS:
                raise InputError(f"{field}: expected one of {', '.join(_FORMATS)}, got {shortened(value)}")
        else:
            raise InputError(f"{field[:64]}: no such log setting; there are {', '.join(self._settings)}")

    def _least(self) -> int:
        """The least severe level that is on, so that records which nobody wants are not even made."""
        if self._settings["log_verbose_level"]:
            return logging.DEBUG
        return next((number for field, number in _LEVEL_SWITCHES.items() if self._settings[field]), _SILENT)

    def _allows(self, record: logging.LogRecord) -> bool:
        if record.name == TRACE_LOGGER:
            return True
        if record.levelno >= logging.ERROR:
            return bool(self._settings["log_error"])
        if record.levelno >= logging.WARNING:
            return bool(self._settings["log_warning"])
        if record.levelno >= logging.INFO:
            return bool(self._settings["log_info"])
        return bool(self._settings["log_verbose_level"])
