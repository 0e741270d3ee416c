"""Are the custom parameters of a request what the operator allows? The one check, for every front end."""

from collections.abc import Mapping
from math import isfinite
from reprlib import repr as shortened
from typing import Any

from guepard.core.errors import InputError
from guepard.core.model_config import RequestParameter

_SHOWN = 20


def check_request_parameters(
    allowed: Mapping[str, RequestParameter], parameters: Mapping[str, Any], model: str
) -> None:
    """Raises: InputError that names the parameter, what came and what is allowed."""
    for name, value in parameters.items():
        rule = allowed.get(name)
        if rule is None:
            raise InputError(f"parameters.{_key(name)}: model {model!r} takes no such parameter; {_names(allowed)}")
        if not _fits(rule, value):
            raise InputError(f"parameters.{_key(name)}: expected {_expected(rule)}, got {_as_json(value)}")


def _fits(rule: RequestParameter, value: Any) -> bool:
    if rule.type == "string":
        if not isinstance(value, str) or (rule.max_length is not None and len(value) > rule.max_length):
            return False
    elif rule.type == "boolean":
        if not isinstance(value, bool):
            return False
    else:
        if isinstance(value, bool) or not isinstance(value, int if rule.type == "integer" else int | float):
            return False
        if isinstance(value, float) and not isfinite(value):
            return False
        if (rule.min is not None and value < rule.min) or (rule.max is not None and value > rule.max):
            return False
    return rule.values is None or value in rule.values


def _expected(rule: RequestParameter) -> str:
    if rule.values is not None:
        shown = ", ".join(map(_as_json, rule.values[:_SHOWN]))
        more = f" and {len(rule.values) - _SHOWN} more" if len(rule.values) > _SHOWN else ""
        return f"one of {shown}{more}"
    if rule.type == "string":
        return "a string" if rule.max_length is None else f"a string of at most {rule.max_length} characters"
    if rule.type == "boolean":
        return "true or false"
    phrase = "an integer" if rule.type == "integer" else "a number"
    if rule.min is not None and rule.max is not None:
        return f"{phrase} from {rule.min} to {rule.max}"
    if rule.min is not None:
        return f"{phrase} of {rule.min} or more"
    return phrase if rule.max is None else f"{phrase} of {rule.max} or less"


def _as_json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else shortened(value)


def _names(allowed: Mapping[str, RequestParameter]) -> str:
    if not allowed:
        return "it takes none"
    shown = ", ".join(sorted(allowed)[:_SHOWN])
    more = f" and {len(allowed) - _SHOWN} more" if len(allowed) > _SHOWN else ""
    return f"it takes {shown}{more}"


def _key(name: str) -> str:
    return name if len(name) <= 64 else f"{name[:64]}…"
