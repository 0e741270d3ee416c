"""A settings struct as a section of the configuration: its options, and how a mapping becomes the struct.

Reading has two steps. `read` checks a mapping and keeps only what it says, so that layers (file, environment, command
line) can be laid over one another; `build` makes the struct, where defaults fill the rest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from guepard.core.errors import ConfigurationError
from guepard.settings.kinds import (
    Choice,
    Either,
    FreeMap,
    JsonSchema,
    Kind,
    ListOf,
    MapOf,
    Measure,
    Scalar,
    Worded,
    refuse,
    show,
)
from guepard.settings.markers import (
    Alias,
    DefaultText,
    Metavar,
    Note,
    OneEntryList,
    Plugins,
    Positive,
    Reserved,
    Spellings,
    Steps,
    SwitchPrefix,
    Whole,
)
from guepard.settings.step_kind import NamedStep
from guepard.settings.units import Quantity, Word

Tree = dict[str, Any]
Marker = TypeVar("Marker")

_SCALARS: dict[type, tuple[str, JsonSchema]] = {
    bool: ("true or false", {"type": "boolean"}),
    int: ("an integer", {"type": "integer"}),
    float: ("a number", {"type": "number"}),
    str: ("text", {"type": "string"}),
}


@dataclass(frozen=True, slots=True)
class Option:
    """One declared option. `default` is `msgspec.UNSET` when the option must be given."""

    name: str
    kind: Kind
    default: Any
    can_be_unset: bool
    description: str
    note: str | None
    default_text: str
    metavar: str | None
    alias: Alias | None
    takes_one_entry_list: bool
    switch_prefix: str | None

    def read(self, value: object, where: str, from_text: bool = False) -> Any:
        if value is None and self.can_be_unset:
            return None
        if self.takes_one_entry_list and isinstance(value, list):
            if len(value) != 1:
                raise ConfigurationError(f"{where}: this version takes one entry here, got {len(value)}")
            value, where = value[0], f"{where}[0]"
        try:
            return self.kind.read(value, where, from_text)
        except ConfigurationError as error:
            if self.note is None:
                raise
            raise ConfigurationError(f"{error} ({self.note})") from None

    def read_alias(self, value: object, where: str) -> Any:
        assert self.alias is not None
        if not self.alias.microseconds:
            return self.read(value, where)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise refuse(where, "an integer of microseconds", value)
        return self.read(f"{value}us", where)


@dataclass(frozen=True, slots=True)
class Section:
    """The options of one struct, by name."""

    struct: type[msgspec.Struct]
    options: Mapping[str, Option]
    phrase: str = "a mapping"

    def read(self, value: object, where: str, from_text: bool = False) -> Tree:
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            raise refuse(where or "the file", f"{self.phrase} of {', '.join(self.options)}", value)
        tree: Tree = {}
        aliases = {option.alias.name: option for option in self.options.values() if option.alias}
        for key, item in value.items():
            place = f"{where}.{key}" if where else str(key)
            option = self.options.get(key) or aliases.get(key)
            if option is None:
                raise ConfigurationError(f"{place}: no such option; {nearest(key, [*self.options, *aliases])}")
            if option.name in tree:
                assert option.alias is not None
                raise ConfigurationError(f"{place}: write {option.name} or {option.alias.name}, not both")
            tree[option.name] = option.read(item, place) if key == option.name else option.read_alias(item, place)
        for option in self.options.values():
            if option.default is msgspec.UNSET and option.name not in tree:
                place = f"{where}.{option.name}" if where else option.name
                raise ConfigurationError(f"{place}: missing; write {option.kind.phrase}")
        return tree

    def build(self, value: Tree) -> Any:
        return self.struct(
            **{name: None if item is None else self.options[name].kind.build(item) for name, item in value.items()}
        )

    def schema(self) -> JsonSchema:
        properties: JsonSchema = {}
        for option in self.options.values():
            properties[option.name] = option_schema(option)
            if option.alias is not None:
                value: JsonSchema = (
                    {"type": "integer", "minimum": 0} if option.alias.microseconds else option.kind.schema()
                )
                properties[option.alias.name] = {"description": f"Triton's name for {option.name}."} | value
        schema: JsonSchema = {"type": "object", "additionalProperties": False, "properties": properties}
        required = [option for option in self.options.values() if option.default is msgspec.UNSET]
        if required:
            schema["allOf"] = [
                {"anyOf": [{"required": [name]} for name in (option.name, option.alias and option.alias.name) if name]}
                for option in required
            ]
        return schema


def option_schema(option: Option) -> JsonSchema:
    kinds = [option.kind.schema()]
    if option.takes_one_entry_list:
        kinds.append({"type": "array", "items": kinds[0], "minItems": 1, "maxItems": 1})
    if option.can_be_unset or isinstance(option.kind, Section):
        kinds.append({"type": "null"})
    schema = {"description": option.description} | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
    says_default = option.default not in (msgspec.UNSET, None) and option.default_text == default_phrase(option.default)
    if says_default and not isinstance(option.kind, Section | FreeMap):
        schema["default"] = msgspec.to_builtins(option.default, enc_hook=str)
    return schema


def nearest(key: object, names: Iterable[str]) -> str:
    """Advice for a name that does not exist."""
    known = list(names)
    close = get_close_matches(str(key), known, n=1)
    return f"did you mean {close[0]}?" if close else f"write one of {', '.join(known)}"


def merge(lower: Tree, upper: Tree) -> Tree:
    """`upper` laid over `lower`: sections join key by key, anything else is replaced."""
    merged = dict(lower)
    for name, value in upper.items():
        below = merged.get(name)
        merged[name] = merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


@cache
def section_of(struct: type[msgspec.Struct]) -> Section:
    """The section that `struct` declares; its own options come before inherited ones."""
    fields = sorted(msgspec.structs.fields(struct), key=lambda field: field.name not in struct.__annotations__)
    return Section(struct, {field.name: _option(field) for field in fields})


def _option(field: msgspec.structs.FieldInfo) -> Option:
    annotation, metadata = _unwrap(field.type)
    default: Any = msgspec.UNSET if field.default is msgspec.NODEFAULT else field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    note = _find(metadata, Note)
    default_text = _find(metadata, DefaultText)
    metavar = _find(metadata, Metavar)
    prefix = _find(metadata, SwitchPrefix)
    description = next((meta.description for meta in _metas(metadata) if meta.description), None)
    assert description, f"{field.name} has no description"
    return Option(
        name=field.name,
        kind=_kind(annotation, metadata),
        default=default,
        can_be_unset=NoneType in get_args(annotation),
        description=description,
        note=note.text if note else None,
        default_text=default_text.text if default_text else default_phrase(default),
        metavar=metavar.text if metavar else None,
        alias=_find(metadata, Alias),
        takes_one_entry_list=_find(metadata, OneEntryList) is not None,
        switch_prefix=prefix.text if prefix else None,
    )


def default_phrase(default: object) -> str:
    if default is msgspec.UNSET:
        return "required"
    if default is None:
        return "unset"
    if isinstance(default, msgspec.Struct):
        return ""
    if isinstance(default, tuple | dict) and not default:
        return "empty"
    return str(default) if isinstance(default, Quantity | Word | str) else show(default)


def _unwrap(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return inner, tuple(metadata)
    return annotation, ()


def _find(metadata: tuple[Any, ...], marker: type[Marker]) -> Marker | None:
    return next((entry for entry in metadata if isinstance(entry, marker)), None)


def _kind(annotation: Any, metadata: tuple[Any, ...]) -> Kind:
    """The kind that a type stands for; constraints sit in the metadata next to the type itself."""
    inner, nearer = _unwrap(annotation)
    metadata = (*nearer, *metadata)
    origin, arguments = get_origin(inner), get_args(inner)
    if origin in (Union, UnionType):
        kinds = tuple(_kind(argument, metadata) for argument in arguments if argument is not NoneType)
        return kinds[0] if len(kinds) == 1 else Either(kinds)
    if origin is tuple:
        return ListOf(_kind(arguments[0], ()), is_split=_find(metadata, Whole) is None)
    if origin is dict:
        if arguments[1] is Any:
            return FreeMap()
        reserved = _find(metadata, Reserved) or Reserved(frozenset(), "")
        return MapOf(_kind(arguments[1], ()), reserved.keys, reserved.reason)
    if origin is Literal:
        spellings = _find(metadata, Spellings)
        plugins = _find(metadata, Plugins)
        return Choice(arguments, spellings.meaning if spellings else {}, plugins.group if plugins else None)
    if (steps := _find(metadata, Steps)) is not None:
        return NamedStep({name: section_of(struct) for name, struct in steps.by_name.items()})
    if issubclass(inner, Word):
        return Worded(inner)
    if issubclass(inner, msgspec.Struct):
        return section_of(inner)
    if issubclass(inner, Quantity):
        return Measure(inner, is_positive=_find(metadata, Positive) is not None)
    return _scalar(inner, metadata)


def _metas(metadata: tuple[Any, ...]) -> list[msgspec.Meta]:
    return [entry for entry in metadata if isinstance(entry, msgspec.Meta)]


def _scalar(inner: type, metadata: tuple[Any, ...]) -> Scalar:
    phrase, schema = _SCALARS[inner]
    for meta in _metas(metadata):
        bounds = {"minimum": meta.ge, "maximum": meta.le, "pattern": meta.pattern}
        bounds = {keyword: bound for keyword, bound in bounds.items() if bound is not None}
        if bounds:
            if "maximum" in bounds:
                phrase = f"{phrase} from {meta.ge} to {meta.le}"
            elif "minimum" in bounds:
                phrase = f"{phrase} of {meta.ge} or more"
            return Scalar(Annotated[inner, meta], phrase, schema | bounds)
    return Scalar(inner, phrase, schema)
