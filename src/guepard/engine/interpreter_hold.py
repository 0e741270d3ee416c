"""How long code keeps the interpreter to itself.

Python code on a thread lets others run only where it waits or calls into libraries that let go of the interpreter's
lock. Code that does neither holds up the event loop, and with it every other model's requests.
"""

import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from sys import getswitchinterval
from time import clock_gettime_ns, perf_counter_ns, pthread_getcpuclockid, sleep
from typing import NamedTuple

from guepard.engine.cpu_times import thread_waits_ns

_TICK_S = 0.000_2
_CALM_TICKS = 20  # before `run`, to know what a turn is like without it


class Hold(NamedTuple):
    """`held_ns`: for how much of `run_ns`, in which waits for a CPU do not count, nothing else could run."""

    run_ns: int
    held_ns: int

    @property
    def share(self) -> float:
        return self.held_ns / self.run_ns if self.run_ns else 0.0


def measure_hold(run: Callable[[], object], threads: Sequence[int] = ()) -> Hold:
    """Call `run` and watch from another thread how often that comes to run meanwhile.

    What is between two of its turns was held, less what a turn takes without `run`, and less the time for which it was
    ready to run and had no CPU; but no more than the calling thread and `threads`, on which `run` has work done, kept a
    CPU busy: other code of this process keeps the watching thread waiting, too. Raises: what `run` raises.
    """
    clocks = [pthread_getcpuclockid(thread) for thread in (threading.get_ident(), *threads)]
    natives = [thread.native_id for thread in threading.enumerate() if thread.ident in threads]
    watcher = _Watcher()
    watcher.start()
    try:
        watcher.calm.wait()
        busy_ns, waited_ns = sum(map(clock_gettime_ns, clocks)), _all_waits_ns(natives)
        start = perf_counter_ns()
        run()
        end = perf_counter_ns()
        waited_ns = _all_waits_ns(natives) - waited_ns
        busy_ns = sum(map(clock_gettime_ns, clocks)) - busy_ns
    finally:
        watcher.stop.set()
        watcher.join()
    run_ns = max(0, end - start - waited_ns)
    return Hold(run_ns, min(run_ns, busy_ns, watcher.held_ns(start, end)))


class _Watcher(threading.Thread):
    """Wakes often, and notes when it did and how long it had waited for a CPU until then."""

    def __init__(self) -> None:
        super().__init__(name="interpreter-hold", daemon=True)
        self.calm = threading.Event()
        self.stop = threading.Event()
        self._ticks: list[tuple[int, int]] = []

    def run(self) -> None:
        while not self.stop.is_set():
            self._ticks.append((perf_counter_ns(), thread_waits_ns()))
            if len(self._ticks) == _CALM_TICKS:
                self.calm.set()
            sleep(_TICK_S)

    def held_ns(self, start: int, end: int) -> int:
        turns = [
            (later, _awaited_ns(later - earlier, later_wait - earlier_wait))
            for (earlier, earlier_wait), (later, later_wait) in pairwise(self._ticks)
        ]
        usual = min([length for later, length in turns if later <= start])
        within = [length for later, length in turns if start < later]
        return min(end - start, int(sum(max(0, length - 2 * usual) for length in within)))


def _awaited_ns(length_ns: int, cpu_wait_ns: int) -> int:
    """Of a turn, what was not waiting for a CPU; all of it where the interpreter was not handed over when asked for.

    Whoever wants it asks after an interval, and only then; on a full machine it also waits for a CPU, but not for that
    alone.
    """
    rest_ns = length_ns - cpu_wait_ns
    return length_ns if rest_ns >= getswitchinterval() * 1e9 / 2 else rest_ns


def _all_waits_ns(threads: Sequence[int | None]) -> int:
    return thread_waits_ns() + sum(map(thread_waits_ns, threads))
