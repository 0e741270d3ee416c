"""The kinds of value that an option may take: how each is read, named in messages, and put into JSON Schema.

`where` is the place that a message names: `models[0].timeout.max`, `--http-port` or `GUEPARD_HTTP_PORT`.
`from_text` is True for flags and environment variables, whose values are text whatever they mean.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol

import msgspec

from guepard.core.errors import ConfigurationError
from guepard.settings.units import ByteSize, Quantity, Word

JsonSchema = dict[str, Any]


class Kind(Protocol):
    @property
    def phrase(self) -> str:
        """The kind in words, as in "expected …"."""
        ...

    def read(self, value: object, where: str, from_text: bool = False) -> Any:
        """The value, checked. Raises ConfigurationError."""
        ...

    def build(self, value: Any) -> Any:
        """What a settings struct holds for a value that `read` gave."""
        ...

    def schema(self) -> JsonSchema: ...


def show(value: object) -> str:
    """The value as its author would recognise it, on one line and not too long."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


def refuse(where: str, phrase: str, value: object) -> ConfigurationError:
    return ConfigurationError(f"{where}: expected {phrase}, got {show(value)}")


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, a number or true/false, within the bounds that `annotation` sets."""

    annotation: Any
    phrase: str
    json_schema: JsonSchema

    def read(self, value: object, where: str, from_text: bool = False) -> Any:
        try:
            return msgspec.convert(
                value.strip() if from_text and isinstance(value, str) else value, self.annotation, strict=not from_text
            )
        except msgspec.ValidationError:
            error = refuse(where, self.phrase, value)
        if self.json_schema["type"] == "string" and value is not None and isinstance(value, bool | int | float):
            error = ConfigurationError(f'{error}; put it in quotes: "{value}"')
        raise error

    def build(self, value: Any) -> Any:
        return value

    def schema(self) -> JsonSchema:
        return dict(self.json_schema)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few values. `spellings` maps other texts to them.

    `plugins`: names of the entry points of that group will do as well. They are looked for only where no value fits.
    """

    values: tuple[Any, ...]
    spellings: Mapping[str, str]
    plugins: str | None = None

    @property
    def phrase(self) -> str:
        texts = [str(value) for value in self.values] + sorted(self._plugin_names())
        return texts[0] if len(texts) == 1 else f"one of {', '.join(texts)}"

    def read(self, value: object, where: str, from_text: bool = False) -> Any:
        text = value.strip() if isinstance(value, str) else value
        for choice in self.values:
            if (type(text) is type(choice) and text == choice) or (from_text and text == str(choice)):
                return choice
        if isinstance(text, str) and text in self.spellings:
            return self.spellings[text]
        if text in self._plugin_names():
            return text
        raise refuse(where, self.phrase, value)

    def build(self, value: Any) -> Any:
        return value

    def schema(self) -> JsonSchema:
        own: JsonSchema = {"enum": [*self.values, *self.spellings]}
        if self.plugins is None:
            return own
        return {"anyOf": [own, {"type": "string", "description": f"An entry point of the group {self.plugins}."}]}

    def _plugin_names(self) -> set[str]:
        return set() if self.plugins is None else set(entry_points(group=self.plugins).names)


@dataclass(frozen=True, slots=True)
class Measure:
    """A duration or a size."""

    quantity: type[Quantity]
    is_positive: bool

    @property
    def phrase(self) -> str:
        bound = " above 0" if self.is_positive else ""
        return f"{self.quantity.noun}{bound} such as {self.quantity.example}"

    def read(self, value: object, where: str, from_text: bool = False) -> Quantity:
        if value is None or isinstance(value, Mapping | list):
            raise refuse(where, self.phrase, value)
        try:
            quantity = self.quantity.read(value)
        except ValueError as error:
            raise ConfigurationError(f"{where}: {error}") from None
        if self.is_positive and not quantity:
            raise refuse(where, self.phrase, value)
        return quantity

    def build(self, value: Any) -> Any:
        return value

    def schema(self) -> JsonSchema:
        units = "|".join([*self.quantity.units, *self.quantity.spellings])
        least = 1 if self.is_positive else 0
        text: JsonSchema = {"type": "string", "pattern": rf"^[0-9]+(\.[0-9]+)? ?({units})$"}
        if self.quantity is ByteSize:
            return {"anyOf": [text, {"type": "integer", "minimum": least}]}
        return text if self.is_positive else {"anyOf": [text, {"enum": [0, "0"]}]}


@dataclass(frozen=True, slots=True)
class Worded:
    """A value that people write in a way of its own: `p99=50ms`, `1000/s`."""

    word: type[Word]

    @property
    def phrase(self) -> str:
        return self.word.phrase

    def read(self, value: object, where: str, from_text: bool = False) -> Word:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise refuse(where, self.phrase, value)
        try:
            return self.word.read(str(value).strip())
        except ValueError as error:
            raise ConfigurationError(f"{where}: {error}") from None

    def build(self, value: Any) -> Any:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class FreeMap:
    """Keys and values that belong to the user."""

    phrase: str = "a mapping"

    def read(self, value: object, where: str, from_text: bool = False) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise refuse(where, self.phrase, value)
        for key, item in value.items():
            _check_key(key, where)
            try:
                json.dumps(item, allow_nan=False)
            except (TypeError, ValueError, RecursionError):
                raise ConfigurationError(
                    f"{where}.{key}: expected text, numbers, true or false, lists and mappings, got {str(item)[:60]}"
                ) from None
        return dict(value)

    def build(self, value: Any) -> Any:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "object"}


def _check_key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise ConfigurationError(f'{where}: the key {show(key)} is not text; put it in quotes: "{key}"')
    return key


@dataclass(frozen=True, slots=True)
class MapOf:
    """Values of one kind under keys that belong to the user. `reserved` keys are refused, for `reason`."""

    item: Kind
    reserved: frozenset[str]
    reason: str

    @property
    def phrase(self) -> str:
        return f"a mapping of names to {self.item.phrase.removeprefix('a ')}s"

    def read(self, value: object, where: str, from_text: bool = False) -> dict[str, Any]:
        """The values are built already, so that a layer above replaces them whole."""
        if not isinstance(value, Mapping):
            raise refuse(where, self.phrase, value)
        found = {}
        for key, item in value.items():
            place = f"{where}.{_check_key(key, where)}"
            if key in self.reserved:
                raise ConfigurationError(f"{place}: {self.reason}")
            tree = self.item.read(item, place)
            try:
                found[key] = self.item.build(tree)
            except ValueError as error:
                raise ConfigurationError(f"{place}.{error}") from None
        return found

    def build(self, value: Any) -> Any:
        return value

    def schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "object", "additionalProperties": self.item.schema()}
        return schema | ({"propertyNames": {"not": {"enum": sorted(self.reserved)}}} if self.reserved else {})


@dataclass(frozen=True, slots=True)
class ListOf:
    """Several values of one kind; as text, with commas between them unless an entry may hold one itself."""

    item: Kind
    is_split: bool = True

    @property
    def phrase(self) -> str:
        if isinstance(self.item, Choice):
            return f"a list out of {', '.join(map(str, self.item.values))}"
        if isinstance(self.item, Either):
            return f"a list, each entry {self.item.phrase}"
        noun, _, rest = self.item.phrase.removeprefix("a ").removeprefix("an ").partition(" ")
        return f"a list of {noun}s {rest}".rstrip()

    def read(self, value: object, where: str, from_text: bool = False) -> list[Any]:
        if from_text:
            texts = [value] if isinstance(value, str) else value
            assert isinstance(texts, list)
            parts = [part for text in texts for part in text.split(",")] if self.is_split else texts
            value = [part.strip() for part in parts if part.strip()]
        if not isinstance(value, list | tuple):
            hint = "" if value is None else f"; write [{show(value)}]" if not isinstance(value, Mapping) else ""
            raise ConfigurationError(f"{refuse(where, self.phrase, value)}{hint}")
        return [self.item.read(part, f"{where}[{index}]", from_text) for index, part in enumerate(value)]

    def build(self, value: Any) -> Any:
        return tuple(self.item.build(part) for part in value)

    def schema(self) -> JsonSchema:
        return {"type": "array", "items": self.item.schema()}


@dataclass(frozen=True, slots=True)
class Either:
    """A value of the first of several kinds that takes it."""

    kinds: tuple[Kind, ...]

    @property
    def phrase(self) -> str:
        return " or ".join(kind.phrase for kind in self.kinds)

    def read(self, value: object, where: str, from_text: bool = False) -> Any:
        for kind in self.kinds:
            try:
                return kind.read(value, where, from_text)
            except ConfigurationError:
                continue
        raise refuse(where, self.phrase, value)

    def build(self, value: Any) -> Any:
        return value

    def schema(self) -> JsonSchema:
        return {"anyOf": [kind.schema() for kind in self.kinds]}
