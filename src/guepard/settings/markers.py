"""What an option's annotation says beside its type and `msgspec.Meta`.

max_queue_delay: Annotated[Duration, Meta(description="…"), Alias("max_queue_delay_microseconds", microseconds=True)]
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct


class Alias(NamedTuple):
    """A second key for the option in files, as Triton spells it; with `microseconds` its value is a plain number."""

    name: str
    microseconds: bool = False


class Note(NamedTuple):
    """Said after every refusal of the option's value, and in the reference."""

    text: str


class DefaultText(NamedTuple):
    """What the default amounts to, where the value alone does not say it."""

    text: str


class Spellings(NamedTuple):
    """Other texts for the same choices; they are read, never written back."""

    meaning: dict[str, str]


class Plugins(NamedTuple):
    """Names that installed packages add to the choices, by entry points of this group."""

    group: str


class Positive(NamedTuple):
    """A quantity that may not be 0."""


class Reserved(NamedTuple):
    """Keys that a mapping with the user's own keys may not hold, and why."""

    keys: frozenset[str]
    reason: str


class OneEntryList(NamedTuple):
    """The section may also be written as a list that holds it alone."""


class Whole(NamedTuple):
    """Entries of the list may hold commas, so a flag gives one entry each time."""


class SwitchPrefix(NamedTuple):
    """The options of the section are also flags and environment variables, with this text before their names."""

    text: str


class Metavar(NamedTuple):
    """What stands for the value in the help of the flag."""

    text: str


class Steps(NamedTuple):
    """The value is one of these steps: its name alone, or its name over its options."""

    by_name: Mapping[str, type[Struct]]
