"""What the routes of the run-time settings do, as `/openapi.json` says it."""

from typing import Any

from guepard.server.http.operation import JSON, Body, Component, Operation, Tag, answers

_SETTINGS = Tag(
    "Settings", "What may be changed while the server runs. Reading needs the verb `observe`, changing `manage`."
)

_FLAG = {"type": "boolean"}
_NO_FILE = {"type": "string", "const": "", "description": "No route sets a path on the server: anything else is 403."}
_LOG_SETTINGS: dict[str, Any] = {
    "log_file": _NO_FILE,
    "log_info": _FLAG,
    "log_warning": _FLAG,
    "log_error": _FLAG,
    "log_verbose_level": {
        "type": "integer",
        "minimum": 0,
        "maximum": 2**32 - 1,
        "description": "Above 0 debug records are written.",
    },
    "log_format": {"type": "string", "enum": ["default", "ISO8601"]},
}
_LOG_DOCUMENT = Component(
    "LogSettings", {"type": "object", "required": list(_LOG_SETTINGS), "properties": _LOG_SETTINGS}
)

_TEXT = {"type": "string"}
_TRACE_DOCUMENT = Component(
    "TraceSettings",
    {
        "type": "object",
        "required": ["trace_file", "trace_level", "trace_rate", "trace_count", "log_frequency", "trace_mode"],
        "properties": {
            "trace_file": _NO_FILE,
            "trace_level": {"type": "array", "items": {"enum": ["OFF", "TIMESTAMPS"]}},
            "trace_rate": _TEXT,
            "trace_count": _TEXT,
            "log_frequency": _TEXT,
            "trace_mode": {"const": "triton"},
        },
    },
)


_NULL = {"type": "null"}
_LEVEL = {"enum": ["OFF", "TIMESTAMPS"]}


def _changes(properties: dict[str, Any]) -> Body:
    return Body({JSON: {"type": "object", "properties": properties, "additionalProperties": False}})


def _number(pattern: str, least: int, description: str) -> dict[str, Any]:
    """As text of up to nine digits, or as a number."""
    text = {"type": "string", "pattern": rf"^{pattern}$(?!\n)"}
    number = {"type": "integer", "minimum": least, "maximum": 2**31 - 1}
    return {"description": description, "anyOf": [text, number, _NULL]}


_TRACE_CHANGES = _changes(
    {
        "trace_level": {"anyOf": [_LEVEL, {"type": "array", "items": _LEVEL, "minItems": 1, "maxItems": 1}, _NULL]},
        "trace_rate": _number("[1-9][0-9]{0,8}", 1, "Every so manyth request of a model is traced."),
        "trace_count": _number("(-1|[0-9]{1,9})", -1, "At most so many; -1 without bound."),
        "log_frequency": _number("[0-9]{1,9}", 0, "Shown, and without effect: each record is written at once."),
        "trace_file": {"anyOf": [_NO_FILE, _NULL]},
        "trace_mode": {"anyOf": [{"const": "triton"}, _NULL]},
    }
)
_TAKEN_BACK = "null takes a setting back. Of a change that is refused nothing takes effect."

LOGGING = Operation(_SETTINGS, "What is logged", answers("The settings in force.", _LOG_DOCUMENT))
UPDATE_LOGGING = Operation(
    _SETTINGS,
    "Change what is logged",
    answers("The settings in force from now on.", _LOG_DOCUMENT),
    description="Of a change that is refused nothing takes effect.",
    body=_changes(_LOG_SETTINGS),
)
TRACING = Operation(_SETTINGS, "Which requests are traced", answers("The settings in force.", _TRACE_DOCUMENT))
UPDATE_TRACING = Operation(
    _SETTINGS,
    "Change which requests are traced",
    answers("The settings in force from now on.", _TRACE_DOCUMENT),
    description=_TAKEN_BACK,
    body=_TRACE_CHANGES,
    refusals=(501,),
)
MODEL_TRACING = Operation(
    _SETTINGS,
    "Which requests of a model are traced",
    answers("The settings in force.", _TRACE_DOCUMENT),
    refusals=(404,),
)
UPDATE_MODEL_TRACING = Operation(
    _SETTINGS,
    "Change which requests of a model are traced",
    answers("The settings in force from now on.", _TRACE_DOCUMENT),
    description=_TAKEN_BACK,
    body=_TRACE_CHANGES,
    refusals=(404, 501),
)
