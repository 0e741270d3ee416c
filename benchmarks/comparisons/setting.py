"""With how much parallelism and batching a server is started.

Which is best depends on the model and on how many clients there are, so a peer is measured with several, and the best
one at each point is told.
"""

import os
from dataclasses import dataclass

CORES = len(os.sched_getaffinity(0))
SMALL_MODELS = frozenset(("mlp",))
"""Whose executions are so short that they want one thread and large batches."""
LARGE_FACTOR = 1.5
"""How much longer large models are loaded: there are fewer answers to go by."""


def turns_for(model: str, turns: int) -> int:
    """One less with large models, whose figures differ little from turn to turn."""
    return turns if model in SMALL_MODELS else max(1, turns - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    name: str
    instances: int = 1
    threads: int = 1
    max_batch_size: int = 1
    delay_ms: int = 1
    connections: frozenset[int] | None = None
    """Where it may be the best; it is not measured elsewhere. None: everywhere."""

    def suits(self, connections: int) -> bool:
        return self.connections is None or connections in self.connections


DEFAULTS = Setting(name="defaults")
SMALL_BATCHES = Setting(name="batches of 64", max_batch_size=64)
SMALL_ALONE = Setting(name="no batching", connections=frozenset((1,)))
SMALL_FEW_ALONE = Setting(name="no batching", connections=frozenset((1, 8)))
"""For servers whose batches gain nothing from eight clients."""
LARGE_NARROW = Setting(name=f"{CORES} × 1 thread, batches of 4", instances=CORES, max_batch_size=4)
LARGE_WIDE = Setting(name=f"1 × {CORES} threads, no batching", threads=CORES, connections=frozenset((1,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of one peer, by the size of the model."""

    small: tuple[Setting, ...] = (SMALL_BATCHES, SMALL_ALONE)
    large: tuple[Setting, ...] = (LARGE_NARROW, LARGE_WIDE)

    def of(self, model: str) -> tuple[Setting, ...]:
        return self.small if model in SMALL_MODELS else self.large
