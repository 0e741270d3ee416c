"""The micro-benchmarks there are, and their cases."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from benchmarks.micro.timing.case import Case

FOLDER = Path(__file__).parents[1]
_COMMANDS = {"__init__", "run", "check"}


def subjects() -> list[str]:
    """Names of the files that are timed, without `.py`."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in _COMMANDS)


@contextmanager
def open_cases(chosen: list[str]) -> Iterator[dict[str, Case]]:
    """The cases of these files, or single cases by their whole names: `scatter: a batch of 8`."""
    found: dict[str, Case] = {}
    wanted = {name.partition(":")[0] for name in chosen}
    for subject in wanted:
        for case in import_module(f"benchmarks.micro.{subject}").cases():
            found[f"{subject}: {case.name}"] = case
    try:
        yield {name: case for name, case in found.items() if name in chosen or name.partition(":")[0] in chosen}
    finally:
        for case in found.values():
            case.close()
