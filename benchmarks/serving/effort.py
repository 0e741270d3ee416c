"""How long to measure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    repeats: int
    """Of each load in the overhead question; medians are told."""
    seconds: int
    """Of one load in the overhead question."""
    rounds: int
    """In which engine and server take turns in the MiniLM question."""
    round_seconds: int
    """Of one load in the MiniLM question; under 4 s, a batch of 30 rows makes the steady rate wrong by a fifth."""
    starts: int
    """Of the server in the start-up question."""
    turns: int
    """Of each load in the questions about growth, which have many loads."""
    turn_seconds: int
    """Of one such load."""


FULL = Effort(repeats=5, seconds=3, rounds=5, round_seconds=6, starts=7, turns=3, turn_seconds=2)
QUICK = Effort(repeats=1, seconds=1, rounds=1, round_seconds=4, starts=3, turns=1, turn_seconds=1)
