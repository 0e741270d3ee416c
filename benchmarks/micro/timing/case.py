"""What a micro-benchmark declares: one piece of work."""

from collections.abc import Callable
from typing import NamedTuple


def nothing() -> None:
    """For cases that hold nothing."""


class Case(NamedTuple):
    """`work` makes `calls` calls of the subject, and leaves it ready for the next `work`.

    `close` lets go of what the case holds; cases of one file may share it, so it may be called again.
    """

    name: str
    work: Callable[[], object]
    calls: int = 1
    close: Callable[[], object] = nothing
