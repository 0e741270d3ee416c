"""What may be said about a custom parameter of requests."""

from collections.abc import Iterator
from math import isfinite
from typing import Annotated, Literal

from msgspec import Meta, Struct

Limit = int | float
Value = str | bool | int | float

_TYPES: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "string": ("text", str),
    "integer": ("an integer", int),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", bool),
}


class RequestParameterSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Raises: ValueError, naming the field, for what does not fit together."""

    type: Annotated[
        Literal["string", "integer", "number", "boolean"],
        Meta(description="What a request must send; an integer is a number too, a boolean never is."),
    ]
    min: Annotated[Limit | None, Meta(description="Least value of an integer or number.")] = None
    max: Annotated[Limit | None, Meta(description="Greatest value of an integer or number.")] = None
    values: Annotated[
        tuple[Value, ...] | None, Meta(description="The values that are allowed; unset: all within the other bounds.")
    ] = None
    max_length: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="Most characters of a string.")] = None

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise ValueError(problem)

    def _problems(self) -> Iterator[str]:
        for field, limit in (("min", self.min), ("max", self.max)):
            if limit is None:
                continue
            if self.type not in ("integer", "number"):
                yield f"{field}: a {self.type} has no such bound; leave it out"
            elif not self._is_of_type(limit):
                yield f"{field}: expected {self._phrase()}, as type says, got {limit}"
        if self.min is not None and self.max is not None and self.min > self.max:
            yield f"min: {self.min} is above max, {self.max}"
        if self.max_length is not None and self.type != "string":
            yield f"max_length: only a string has a length, and type is {self.type}; leave it out"
        if self.values is not None:
            yield from self._problems_of_values(self.values)

    def _problems_of_values(self, values: tuple[Value, ...]) -> Iterator[str]:
        if not values:
            yield "values: the list is empty, so that no value would be allowed; name some or leave it out"
        for index, value in enumerate(values):
            if not self._is_of_type(value):
                yield f"values[{index}]: expected {self._phrase()}, as type says, got {value!r}"
            elif isinstance(value, str):
                if self.max_length is not None and len(value) > self.max_length:
                    yield f"values[{index}]: {value!r} is longer than max_length, {self.max_length}"
            elif self.min is not None and value < self.min:
                yield f"values[{index}]: {value} is below min, {self.min}"
            elif self.max is not None and value > self.max:
                yield f"values[{index}]: {value} is above max, {self.max}"

    def _is_of_type(self, value: Value) -> bool:
        _, types = _TYPES[self.type]
        if isinstance(value, float) and not isfinite(value):
            return False
        return isinstance(value, types) and (self.type == "boolean" or not isinstance(value, bool))

    def _phrase(self) -> str:
        return _TYPES[self.type][0]
