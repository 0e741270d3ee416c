"""Which requests are traced, changed while the server runs: Triton's `trace` extension as plain dicts.

A model has the server's settings but for those that were set for itself; the server has the defaults but for those that
were set for it.
"""

import re
from collections.abc import Callable, Mapping
from reprlib import repr as shortened
from typing import Any, NamedTuple

from guepard.core.errors import InputError, PermissionDenied, Unsupported
from guepard.telemetry.request_trace import UNBOUNDED, RequestTrace, TracePlan

_OFF = ("OFF",)
_LEVELS = ("OFF", "TIMESTAMPS", "TENSORS")
_DECIMAL = re.compile(r"-?[0-9]{1,10}", re.ASCII)


class _Range(NamedTuple):
    least: int
    most: int


_INTEGERS = {
    "trace_rate": _Range(1, 2**32 - 1),
    "trace_count": _Range(UNBOUNDED, 2**31 - 1),
    "log_frequency": _Range(0, 2**32 - 1),
}

_DEFAULTS: dict[str, Any] = {
    "trace_file": "",
    "trace_level": _OFF,
    "trace_rate": 1_000,
    "trace_count": UNBOUNDED,
    "log_frequency": 0,
    "trace_mode": "triton",
}


class TraceSettings:
    """`check_known` raises for a name that no model has. For the event loop's thread alone."""

    def __init__(self, check_known: Callable[[str], None]) -> None:
        self._check_known = check_known
        self._server: dict[str, Any] = {}
        self._models: dict[str, dict[str, Any]] = {}
        self._traces: dict[str, RequestTrace] = {}

    def trace(self, model: str) -> RequestTrace:
        """What the versions of `model` tell their requests to; it follows the settings."""
        if model not in self._traces:
            self._traces[model] = RequestTrace(self._plan(model))
        return self._traces[model]

    def settings(self, model: str | None) -> dict[str, Any]:
        """As Triton writes them: `trace_level` a list, the others strings. `model` None: the server's.

        Raises: NotFound, InputError for a name that no model has.
        """
        if model is not None:
            self._check_known(model)
        return {
            field: list(value) if field == "trace_level" else str(value)
            for field, value in self._in_force(model).items()
        }

    def update(self, model: str | None, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The settings after `changes`, of which all or none take effect. None as a value takes a setting back.

        A model counts its requests anew when what is in force for it changes, or `trace_count` is set again.
        Raises: InputError naming the field, NotFound, PermissionDenied for a file, Unsupported.
        """
        if model is not None:
            self._check_known(model)
        read = {field: _read(field, value) for field, value in changes.items()}
        own = self._server if model is None else self._models.setdefault(model, {})
        for field, value in read.items():
            if value is None:
                own.pop(field, None)
            else:
                own[field] = value
        for name, trace in self._traces.items():
            if model is None or name == model:
                recounts = "trace_count" in read and (model is not None or "trace_count" not in self._own(name))
                plan = self._plan(name)
                if recounts or plan != trace.plan:
                    trace.begin(plan)
        return self.settings(model)

    def _own(self, model: str | None) -> dict[str, Any]:
        return {} if model is None else self._models.get(model, {})

    def _in_force(self, model: str | None) -> dict[str, Any]:
        return _DEFAULTS | self._server | self._own(model)

    def _plan(self, model: str) -> TracePlan:
        settings = self._in_force(model)
        return TracePlan(settings["trace_level"] != _OFF, settings["trace_rate"], settings["trace_count"])


def _read(field: str, value: object) -> Any:
    if field not in _DEFAULTS:
        raise InputError(f"{field[:64]}: no such trace setting; there are {', '.join(_DEFAULTS)}")
    if value is None:
        return None
    if field == "trace_level":
        return _levels(value)
    if isinstance(value, list) and len(value) == 1:  # every value is a list over gRPC
        value = value[0]
    if field in _INTEGERS:
        return _integer(field, value, _INTEGERS[field])
    if not isinstance(value, str):
        raise InputError(f"{field}: expected a string, got {shortened(value)}")
    if field == "trace_file" and value:
        raise PermissionDenied("trace_file: no route sets a path on the server; traces are records of its log")
    if field == "trace_mode" and value == "opentelemetry":
        raise Unsupported("trace_mode: opentelemetry is not served yet; triton is")
    if field == "trace_mode" and value != "triton":
        raise InputError(f"trace_mode: expected triton, got {shortened(value)}")
    return value


def _levels(value: object) -> tuple[str, ...]:
    levels = value if isinstance(value, list) else [value]
    for level in levels:
        if level not in _LEVELS:
            raise InputError(f"trace_level: expected a list out of {', '.join(_LEVELS)}, got {shortened(value)}")
    found = tuple(dict.fromkeys(levels))
    if "TENSORS" in found:
        raise Unsupported("trace_level: TENSORS is not served, since the log is no place for callers' data")
    if len(found) != 1:
        raise InputError(f"trace_level: expected OFF or TIMESTAMPS alone, got {shortened(value)}")
    return found


def _integer(field: str, value: object, bounds: _Range) -> int:
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not bounds.least <= value <= bounds.most:
        expected = f"a whole number from {bounds.least} to {bounds.most}"
        raise InputError(f"{field}: expected {expected}, got {shortened(value)}")
    return value
