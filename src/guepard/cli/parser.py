"""argparse with our manners: errors are ConfigurationError, and an unknown option is answered with the nearest one."""

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

from guepard.core.errors import ConfigurationError


class Parser(argparse.ArgumentParser):
    """The parser of one verb. `parse` takes options and arguments in any order.

    The namespace has the words themselves as `words`.
    """

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Raises ConfigurationError. `--help` prints and exits."""
        namespace, unknown = self.parse_known_intermixed_args(words)
        for word in unknown:
            flag = word.partition("=")[0]
            close = get_close_matches(flag, self._option_string_actions, n=1) if flag.startswith("-") else []
            advice = f"did you mean {close[0]}?" if close else f"{self.prog} --help lists what it takes"
            self.error(f"{flag}: not known to {self.prog}; {advice}")
        namespace.words = tuple(words)
        return namespace

    def describe(self) -> list[tuple[str, str]]:
        """Each argument as it is written, and its help."""
        rows = []
        for action in self._actions:
            placeholder = "" if action.nargs == 0 else f" {action.metavar}"
            names = ", ".join(action.option_strings)
            rows.append((f"{names}{placeholder}".strip(), (action.help or "").replace("%%", "%")))
        return rows

    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(message)
