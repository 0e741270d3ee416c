"""The declared options as argparse arguments, one group per section."""

import argparse
from collections.abc import Mapping

from guepard.settings.kinds import Choice, Either, Kind, ListOf, Measure, Scalar
from guepard.settings.options import Settings
from guepard.settings.section import section_of
from guepard.settings.switches import BY_KEY, SWITCHES, Switch


def add_switches(parser: argparse.ArgumentParser) -> None:
    """Every option that has a flag. Values stay text; `given` collects those that were written."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for switch in SWITCHES:
        if switch.section not in groups:
            description = section_of(Settings).options[switch.section].description if switch.section else None
            groups[switch.section] = parser.add_argument_group(switch.section or "models", description)
        _add(groups[switch.section], switch)


def given(arguments: argparse.Namespace) -> Mapping[str, object]:
    """The switches on the command line, by key."""
    return {key: value for key, value in vars(arguments).items() if key in BY_KEY}


def _add(group: argparse._ArgumentGroup, switch: Switch) -> None:
    option = switch.option
    note = f" {option.note[0].upper()}{option.note[1:]}." if option.note else ""
    help_text = f"{option.description}{note} [default: {option.default_text}; {switch.environment}]"
    help_text = help_text.replace("%", "%%")
    if isinstance(option.kind, Scalar) and option.kind.json_schema["type"] == "boolean":
        group.add_argument(
            switch.flag,
            dest=switch.key,
            action=argparse.BooleanOptionalAction,
            default=argparse.SUPPRESS,
            help=help_text,
        )
        return
    group.add_argument(
        switch.flag,
        dest=switch.key,
        action="append" if switch.is_list else "store",
        default=argparse.SUPPRESS,
        metavar=option.metavar or _placeholder(option.kind),
        help=help_text,
    )


def _placeholder(kind: Kind) -> str:
    match kind:
        case ListOf():
            return _placeholder(kind.item)
        case Either():
            return "|".join(_placeholder(each) for each in kind.kinds)
        case Choice():
            return f"{{{','.join(str(value) for value in kind.values)}}}"
        case Measure():
            return kind.quantity.noun.removeprefix("a ").upper()
        case Scalar():
            return "TEXT" if kind.json_schema["type"] == "string" else "N"
    raise TypeError(f"no placeholder for {kind}")
