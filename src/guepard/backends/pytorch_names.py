"""Which declared tensor is which argument of a model, and which of its results.

Names are the model's own (arguments of `forward`, keys of a dict, fields of a tuple), or Triton's: a tensor called
`ANYTHING__2` is the third. Where no name is one of the model's, the order of the configuration counts.

Source: Triton, PyTorch backend, "Important Notes": naming conventions of inputs and outputs.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from guepard.core.errors import LoadError, ModelError
from guepard.core.tensor import TensorSpec

_NUMBERED = re.compile(r".+__(\d+)")

Picker = Callable[[Any], Sequence[Any]]
"""From what a model returned to its outputs, in the order of the description."""


class Parameter(NamedTuple):
    """An argument that takes a tensor."""

    name: str
    optional: bool = False


def arrange(declared: Sequence[TensorSpec], parameters: Sequence[Parameter], model: str) -> list[int]:
    """For each declared input the place of its argument. Raises: LoadError when they do not fit."""
    names = [spec.name for spec in declared]
    known = [parameter.name for parameter in parameters]
    places = _numbers(names)
    if places is None and not any(name in known for name in names):
        places = list(range(len(names)))
    if places is None:
        stranger = next((name for name in names if name not in known), None)
        if stranger is not None:
            raise LoadError(
                f"input {stranger!r} is declared, but {model} takes {', '.join(known)}; use these names, or number all "
                "inputs as in INPUT__0"
            )
        places = [known.index(name) for name in names]
    if len(set(places)) < len(places) or max(places, default=-1) >= len(known):
        raise LoadError(
            f"{len(names)} inputs are declared ({', '.join(names)}), but {model} takes {', '.join(known) or 'none'}"
        )
    missing = [each.name for place, each in enumerate(parameters) if place not in places and not each.optional]
    if missing:
        raise LoadError(f"{model} also takes {', '.join(missing)}, which inputs do not declare; declare each of them")
    return places


def picker(names: Sequence[str]) -> Picker:
    """For outputs that are called so."""
    numbers = _numbers(names)
    places = list(range(len(names))) if numbers is None else numbers

    def pick(result: Any) -> Sequence[Any]:
        keyed = as_mapping(result)
        if keyed is not None and numbers is None and all(name in keyed for name in names):
            return [keyed[name] for name in names]
        values = as_sequence(result) if keyed is None else list(keyed.values())
        if len(values) <= max(places, default=-1):
            raise ModelError(
                f"the model returned {len(values)} outputs, and {len(names)} are declared: {', '.join(names)}"
            )
        return [values[place] for place in places]

    return pick


def as_mapping(result: Any) -> Mapping[str, Any] | None:
    """Results by name, where they have names: a dict, a named tuple, a dataclass."""
    if isinstance(result, Mapping):
        return result
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return dict(zip(result._fields, result, strict=True))
    if is_dataclass(result) and not isinstance(result, type):
        return {field.name: value for field in fields(result) if (value := getattr(result, field.name)) is not None}
    return None


def as_sequence(result: Any) -> Sequence[Any]:
    return result if isinstance(result, tuple | list) else (result,)


def _numbers(names: Sequence[str]) -> list[int] | None:
    """By Triton's convention, if all names follow it."""
    matches = [_NUMBERED.fullmatch(name) for name in names]
    found = [int(match[1]) for match in matches if match is not None]
    return found if names and len(found) == len(names) else None
