"""Parameters of an OIP request that have a meaning of their own, and what a model is allowed to see of the rest."""

from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any

from guepard.core.errors import InputError, Unsupported
from guepard.core.names import RESERVED_PARAMETERS
from guepard.core.request import NO_PARAMETERS, InferenceRequest

MICROSECOND = 1_000
PRIORITY_LEVELS = 3


def is_whole(value: object) -> bool:
    """A JSON integer. `true` is none, although Python's bool is an int."""
    return isinstance(value, int) and not isinstance(value, bool)


def apply_parameters(request: InferenceRequest, parameters: Mapping[str, Any]) -> None:
    """Set deadline and priority from `parameters` and leave the others for the model.

    Units: OIP's `timeout` is in microseconds. Raises: InputError.
    Source: Triton's "Parameters extension" and its reserved names.
    """
    for key, value in parameters.items():
        if not isinstance(value, (str, bool, int, float)):
            raise InputError(f"parameters.{key}: expected a string, number or boolean, got {_kind(value)}")
        if key == "timeout":
            request.timeout_ns = whole(key, value) * MICROSECOND
        elif key == "priority":
            request.priority = priority(f"parameters.{key}", whole(key, value))
    if RESERVED_PARAMETERS.isdisjoint(parameters):
        request.parameters = parameters
    else:
        left = {key: value for key, value in parameters.items() if key not in RESERVED_PARAMETERS}
        request.parameters = left or NO_PARAMETERS


def whole(key: str, value: object) -> int:
    """`value` as a non-negative integer; OIP clients may send it as a decimal string."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise InputError(f"parameters.{key}: expected a whole number of 0 or more, got {shortened(value)}")
    return value


def priority(field: str, value: int) -> int:
    """1 is the highest of three levels; 0 stands for the model's default."""
    if value > PRIORITY_LEVELS:
        raise InputError(f"{field}: expected 0 (the default) to {PRIORITY_LEVELS}, 1 being the highest, got {value}")
    return value


def refuse_tensor_parameters(field: str, parameters: Mapping[str, Any]) -> None:
    """Say so when a tensor asks for an extension that this build does not serve."""
    for key in parameters:
        if key == "classification" and parameters[key]:
            raise Unsupported(f"{field}.parameters.{key}: classification is not served; ask for the raw output")


def _kind(value: object) -> str:
    return {dict: "an object", list: "an array", type(None): "null"}.get(type(value), type(value).__name__)
