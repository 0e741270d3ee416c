"""Writes docs/reference/command-line.md: `python -m guepard.cli.reference`."""

import sys
from pathlib import Path

from guepard.cli.main import VERBS, find_verb, overview, verb_parser

_INTRODUCTION = """\
# Command line

Written by `python -m guepard.cli.reference` from the verbs in `guepard.cli`; edit those instead.

```
{overview}```

Options and arguments may come in any order. Exit codes: 0 done; 1 the work failed; 2 wrong usage or configuration, and
the message on stderr names the option and says what to write instead; 130 interrupted before the work began, and for
`guepard bench` also while it measures: it reports what it has by then. Documents
asked for with `--json` go to stdout; progress and logs go to stderr. [Settings](settings.md) has every option with its
file key and environment variable.
"""


def command_line_page() -> str:
    """The reference page, in Markdown."""
    lines = [_INTRODUCTION.format(overview=overview())]
    for name in VERBS:
        parser = verb_parser(name, find_verb(name))
        lines += [f"## guepard {name}", "", str(parser.description), "", "| argument | meaning |", "|---|---|"]
        lines += [f"| `{_cell(written)}` | {_cell(meaning)} |" for written, meaning in parser.describe()]
        lines += ["", "```", str(parser.epilog).rstrip(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def main() -> int:
    folder = Path("docs", "reference")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "command-line.md").write_text(command_line_page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
