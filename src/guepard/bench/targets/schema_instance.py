"""A small value that a JSON Schema allows: what an API's document says a request looks like, without an example.

Examples, defaults, constants and enumerations come first, then what the type asks for at least; of alternatives the
first, and of properties those that are required.
Source: JSON Schema 2020-12; OpenAPI 3.0 and 3.1, "Schema Object".
"""

from collections.abc import Mapping
from math import ceil, floor
from typing import Any, NamedTuple

from guepard.core.errors import ConfigurationError

_MAX_DEPTH = 40
_MAX_VALUES = 100_000
_FORMATS = {
    "date-time": "2024-01-31T12:00:00Z",
    "date": "2024-01-31",
    "time": "12:00:00Z",
    "duration": "PT1S",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "email": "someone@example.org",
    "uri": "https://example.org/",
    "url": "https://example.org/",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "byte": "AAAA",
}
_FIRST_SAYS = ("const", "example", "default")


class Instance(NamedTuple):
    """`guessed`: places where the schema says too little, or a pattern that is not followed; they may be wrong."""

    value: Any
    guessed: tuple[str, ...]


def schema_instance(schema: Any, document: Mapping[str, Any]) -> Instance:
    """A value of `schema`, whose references lead into `document`.

    Raises: ConfigurationError for references that lead nowhere or out of it, and for schemas without an end.
    """
    maker = _Maker(document)
    return Instance(maker.value(schema, "body", 0), tuple(maker.guessed))


def resolve(node: Any, document: Mapping[str, Any]) -> Any:
    """What `node` is once its `$ref` has been followed. Raises: ConfigurationError."""
    seen = set()
    while isinstance(node, Mapping) and "$ref" in node:
        reference = node["$ref"]
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise ConfigurationError(
                f"--openapi: the reference {reference!r} leads out of the document; bundle it first"
            )
        if reference in seen:
            raise ConfigurationError(f"--openapi: the reference {reference!r} leads to itself")
        seen.add(reference)
        node = document
        for part in reference[2:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(part)] if isinstance(node, list) else node[part]
            except (KeyError, IndexError, ValueError, TypeError):
                raise ConfigurationError(f"--openapi: the reference {reference!r} leads nowhere") from None
    return node


class _Maker:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._count = 0
        self.guessed: list[str] = []

    def value(self, schema: Any, where: str, depth: int) -> Any:
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MAX_VALUES:
            raise ConfigurationError(
                f"--openapi: the schema at {where[:200]} has no small value; give a body with --data"
            )
        schema = self._merged(schema, where, depth)
        for name in _FIRST_SAYS:
            if name in schema:
                return schema[name]
        for name in ("examples", "enum"):
            if isinstance(schema.get(name), list) and schema[name]:
                return schema[name][0]
        match self._kind(schema):
            case "object":
                return self._object(schema, where, depth)
            case "array":
                return self._array(schema, where, depth)
            case "string":
                return self._text(schema, where)
            case "integer":
                return self._integer(schema)
            case "number":
                return self._number(schema)
            case "boolean":
                return True
            case "null":
                return None
        self.guessed.append(where)
        return {}

    def _merged(self, schema: Any, where: str, depth: int) -> dict[str, Any]:
        """The schema with its references, all of `allOf` and the first alternative that is not null taken in."""
        schema = resolve(schema, self._document)
        if schema is True:
            return {}
        if not isinstance(schema, Mapping):
            raise ConfigurationError(f"--openapi: the schema at {where[:200]} allows no value")
        if depth > _MAX_DEPTH:
            raise ConfigurationError(f"--openapi: the schema at {where[:200]} contains itself; give a body with --data")
        merged = dict(schema)
        parts = list(schema.get("allOf") or ())
        for name in ("oneOf", "anyOf"):
            choices = [resolve(choice, self._document) for choice in schema.get(name) or ()]
            parts += [choice for choice in choices if not _is_null(choice)][:1] or choices[:1]
        for part in parts:
            inner = self._merged(part, where, depth + 1)
            properties = {**inner.get("properties", {}), **merged.get("properties", {})}
            required = [*merged.get("required", ()), *inner.get("required", ())]
            merged = {**inner, **merged}
            if properties:
                merged["properties"] = properties
            if required:
                merged["required"] = required
        return merged

    def _kind(self, schema: Mapping[str, Any]) -> str | None:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        if kind is None:
            if "properties" in schema or "required" in schema:
                return "object"
            if "items" in schema or "prefixItems" in schema:
                return "array"
        return kind

    def _object(self, schema: Mapping[str, Any], where: str, depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        value = {}
        for name in dict.fromkeys(schema.get("required", ())):
            value[name] = self.value(properties.get(name, True), f"{where}.{name}", depth + 1)
        return value

    def _array(self, schema: Mapping[str, Any], where: str, depth: int) -> list[Any]:
        """At least one item where that is allowed: an empty list is seldom what a model takes."""
        first = list(schema.get("prefixItems") or ())
        count = max(_whole(schema.get("minItems")), len(first), 1)
        if isinstance(schema.get("maxItems"), int):
            count = min(count, schema["maxItems"])
        if count > _MAX_VALUES:
            raise ConfigurationError(f"--openapi: {where[:200]} has {count} items at least; give a body with --data")
        rest = schema.get("items", True)
        return [
            self.value(first[index] if index < len(first) else rest, f"{where}[{index}]", depth + 1)
            for index in range(count)
        ]

    def _text(self, schema: Mapping[str, Any], where: str) -> str:
        known = _FORMATS.get(str(schema.get("format")))
        if known is not None:
            return known
        if "pattern" in schema:
            self.guessed.append(where)
        least, most = _whole(schema.get("minLength")), schema.get("maxLength")
        if least > _MAX_VALUES:
            raise ConfigurationError(
                f"--openapi: {where[:200]} has {least} characters at least; give a body with --data"
            )
        text = "text".ljust(least, "x")
        return text[:most] if isinstance(most, int) else text

    def _integer(self, schema: Mapping[str, Any]) -> int:
        low, high = _bounds(schema, 1)
        step = schema.get("multipleOf", 1)
        step = int(step) if isinstance(step, int | float) and step >= 1 else 1
        value = max(step, ceil(low / step) * step) if low is not None else step
        return floor(high / step) * step if high is not None and value > high else value

    def _number(self, schema: Mapping[str, Any]) -> float:
        low, high = _bounds(schema, 0)
        if low is not None and high is not None:
            return float((low + high) / 2)
        if low is not None:
            return float(max(low + 1, 0.5))
        return 0.5 if high is None or high > 0.5 else float(high - 1)


def _bounds(schema: Mapping[str, Any], beyond: int) -> tuple[float | None, float | None]:
    """Least and largest value. Exclusive bounds are numbers in OpenAPI 3.1 and flags beside the others in 3.0."""
    low, high = _number(schema.get("minimum")), _number(schema.get("maximum"))
    under, over = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if under is True and low is not None:
        low += beyond
    elif (least := _number(under)) is not None:
        low = least + beyond
    if over is True and high is not None:
        high -= beyond
    elif (most := _number(over)) is not None:
        high = most - beyond
    return low, high


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (schema.get("type") == "null" or schema.get("const", 0) is None)
