"""The declared options as argparse arguments, one group per section."""

import argparse
from collections.abc import Collection, Mapping, Sequence

import msgspec

from guepard.settings.kinds import Choice, Either, Kind, ListOf, Measure, Scalar, Worded
from guepard.settings.options import Settings
from guepard.settings.section import section_of
from guepard.settings.switches import BY_KEY, SWITCHES, Switch


def add_switches(
    parser: argparse.ArgumentParser,
    settings: type[msgspec.Struct] = Settings,
    switches: Sequence[Switch] = SWITCHES,
    *,
    has_environment: bool = True,
) -> None:
    """Every option that has a flag. Values stay text; `given` collects those that were written.

    Without an environment nothing lies under the flags, so that none is needed to take back what is off by default.
    """
    groups: dict[str, argparse._ArgumentGroup] = {}
    for switch in switches:
        if switch.section not in groups:
            description = section_of(settings).options[switch.section].description if switch.section else None
            groups[switch.section] = parser.add_argument_group(switch.section or "models", description)
        _add(groups[switch.section], switch, has_environment)


def given(arguments: argparse.Namespace, keys: Collection[str] = BY_KEY) -> Mapping[str, object]:
    """The switches on the command line, by key."""
    return {key: value for key, value in vars(arguments).items() if key in keys}


def _add(group: argparse._ArgumentGroup, switch: Switch, has_environment: bool) -> None:
    option = switch.option
    note = f" {option.note[0].upper()}{option.note[1:]}." if option.note else ""
    if has_environment:
        note += f" [default: {option.default_text}; {switch.environment}]"
    elif option.default_text not in ("unset", "empty", "false", "0"):
        note += f" [default: {option.default_text}]"
    help_text = f"{option.description}{note}".replace("%", "%%")
    if isinstance(option.kind, Scalar) and option.default is False and not has_environment:
        group.add_argument(switch.flag, dest=switch.key, action="store_true", default=argparse.SUPPRESS, help=help_text)
        return
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
        case Worded():
            return kind.word.__name__.upper()
        case Measure():
            return kind.quantity.noun.removeprefix("a ").upper()
        case Scalar():
            return "TEXT" if kind.json_schema["type"] == "string" else "N"
    raise TypeError(f"no placeholder for {kind}")
