"""Runs of two executors in turns, and how long each would take if it had the machine to itself.

What is chosen by these times is chosen for good, and other work may have the CPUs just now. How long a run takes then
says little; how long the busiest of its threads had a CPU for it says what it would take without that work.
"""

from collections.abc import Callable, Collection, Mapping
from time import perf_counter_ns, process_time_ns

from guepard.backends.base import Executor
from guepard.engine.cpu_times import cpu_times

_CALM = 0.1  # of a run, for which any of its threads may have waited for a CPU


class TimedTurns:
    """Of one kind. `helpers`: the threads that compute with the calling one. Units: nanoseconds."""

    def __init__(self, first: Executor, second: Executor, helpers: Collection[int]) -> None:
        self._executors = (first, second)
        self._helpers = helpers
        self.wall: dict[Executor, int] = {}  # of the fastest run
        self.busiest: dict[Executor, int] = {}  # the least that the thread that computed longest had of a CPU
        self.cpu: dict[Executor, int] = {}  # the least that all threads of the process had together
        self._calm: set[Executor] = set()  # those of which a run had the CPUs that it wanted
        self.spent = 0

    def run(self, execute: Callable[[Executor], object], turns: int) -> None:
        for executor in self._executors * turns:
            before, cpu = cpu_times(self._helpers), process_time_ns()
            started = perf_counter_ns()
            execute(executor)
            took = perf_counter_ns() - started
            self._note(self.cpu, executor, process_time_ns() - cpu)
            pairs = list(zip(before, cpu_times(self._helpers), strict=True))
            waited = max(after.waited - before.waited for before, after in pairs)
            self._note(self.wall, executor, took)
            self._note(self.busiest, executor, max(after.had - before.had for before, after in pairs))
            if waited <= took * _CALM:
                self._calm.add(executor)
            self.spent += took

    @staticmethod
    def _note(least: dict[Executor, int], executor: Executor, value: int) -> None:
        least[executor] = min(least.get(executor, value), value)

    @property
    def is_calm(self) -> bool:
        return len(self._calm) == 2

    @property
    def times(self) -> Mapping[Executor, int]:
        """What to compare: the length of a run, or while other work has the CPUs that of its busiest thread."""
        return self.wall if self.is_calm else self.busiest

    @property
    def turn(self) -> int:
        """How long one run of each takes."""
        return sum(self.wall.values())
