"""`guepard VERB …`: finds the verb, parses its arguments, turns errors into exit codes.

A verb is one module of this package, named after it, that holds SUMMARY, `add_arguments` and `run`. Modules import
what they need inside these functions, so that help costs nothing.
Exit codes: 0 done; 1 the work failed; 2 wrong usage or configuration; 130 interrupted.
"""

import os
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Protocol, cast

from guepard import __version__
from guepard.cli.parser import Parser
from guepard.core.errors import ConfigurationError

VERBS = ("serve", "bench", "version")


class Verb(Protocol):
    SUMMARY: str

    def add_arguments(self, parser: Parser) -> None: ...

    def run(self, arguments: Namespace, started_ns: int) -> int:
        """Do the work and return the exit code. Raises ConfigurationError. `started_ns` is monotonic."""
        ...


def find_verb(name: str) -> Verb:
    return cast(Verb, import_module(f"guepard.cli.{name}"))


def main(argv: Sequence[str] | None = None) -> int:
    """The command `guepard`. Returns the exit code."""
    started_ns = time.monotonic_ns()
    _open_streams()
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        return _dispatch(words, started_ns)
    except ConfigurationError as error:
        print(f"guepard: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _open_streams() -> None:
    """Where the caller has closed stdout or stderr, what is written to it goes nowhere."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _dispatch(words: list[str], started_ns: int) -> int:
    if not words:
        raise ConfigurationError(f"name a verb: {', '.join(VERBS)}; guepard --help says what they do")
    name, *rest = words
    if name in ("-h", "--help", "help"):
        print(overview(), end="")
        return 0
    if name == "--version":
        print(f"guepard {__version__}")
        return 0
    if name not in VERBS:
        raise ConfigurationError(f"{name}: no such verb; {_advice(name)}")
    verb = find_verb(name)
    return verb.run(verb_parser(name, verb).parse(rest), started_ns)


def _advice(name: str) -> str:
    close = get_close_matches(name, VERBS, n=1)
    if close:
        return f"did you mean {close[0]}?"
    if os.path.exists(name):
        return f"did you mean guepard serve {name}?"
    return f"the verbs are {', '.join(VERBS)}"


def verb_parser(name: str, verb: Verb) -> Parser:
    """The parser of one verb, its switches included."""
    parser = Parser(prog=f"guepard {name}", description=verb.SUMMARY)
    verb.add_arguments(parser)
    return parser


def overview() -> str:
    """What `guepard --help` prints."""
    width = max(map(len, VERBS))
    lines = [f"  {name:<{width}}  {find_verb(name).SUMMARY}" for name in VERBS]
    return "\n".join(
        [
            "usage: guepard VERB [ARGUMENTS]",
            "",
            "Turns a machine-learning model into a fast, robust API.",
            "",
            *lines,
            "",
            "guepard VERB --help explains a verb. guepard serve model.onnx is a good start.",
            "",
        ]
    )
