"""The options that are flags and environment variables too, derived from the declarations."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from guepard.settings.kinds import ListOf
from guepard.settings.options import Settings
from guepard.settings.section import Option, Section, Tree, merge, section_of

ENVIRONMENT_PREFIX = "GUEPARD_"


class Switch(NamedTuple):
    """`section` is empty for an option at the top of the file."""

    section: str
    option: Option
    flag: str
    environment: str

    @property
    def key(self) -> str:
        return f"{self.section}.{self.option.name}" if self.section else self.option.name

    @property
    def is_list(self) -> bool:
        return isinstance(self.option.kind, ListOf)

    def read(self, value: object, where: str) -> Tree:
        """The part of the configuration that the text says. Raises ConfigurationError."""
        tree: Tree = {self.option.name: self.option.read(value, where, from_text=True)}
        return {self.section: tree} if self.section else tree


def _switch(section: str, prefix: str, option: Option) -> Switch:
    name = "_".join(part for part in (prefix, option.name) if part)
    return Switch(section, option, f"--{name.replace('_', '-')}", f"{ENVIRONMENT_PREFIX}{name.upper()}")


def switches_of(settings: type[msgspec.Struct]) -> tuple[Switch, ...]:
    """The switches that the sections of `settings` declare."""
    found: list[Switch] = []
    for option in section_of(settings).options.values():
        if isinstance(option.kind, Section):
            if option.switch_prefix is not None:
                inner = option.kind.options.values()
                found.extend(_switch(option.name, option.switch_prefix, each) for each in inner)
        elif not (isinstance(option.kind, ListOf) and isinstance(option.kind.item, Section)):
            found.append(_switch("", "", option))
    return tuple(found)


SWITCHES = switches_of(Settings)
BY_KEY = {switch.key: switch for switch in SWITCHES}


def read_flags(values: Mapping[str, object], by_key: Mapping[str, Switch] = BY_KEY) -> Tree:
    """What the command line says; `values` is by key (`server.http_port`). Raises ConfigurationError."""
    tree: Tree = {}
    for key, value in values.items():
        switch = by_key[key]
        tree = merge(tree, switch.read(value, switch.flag))
    return tree


def read_environment(environment: Mapping[str, str]) -> Tree:
    """What the environment says. Raises ConfigurationError.

    An empty variable says nothing. Neither does `tcp://…`: in Kubernetes, a Service named guepard-http puts such a
    GUEPARD_HTTP_PORT into every pod beside it.
    """
    tree: Tree = {}
    for switch in SWITCHES:
        value = environment.get(switch.environment, "")
        if value and not value.startswith(("tcp://", "udp://", "sctp://")):
            tree = merge(tree, switch.read(value, switch.environment))
    return tree
