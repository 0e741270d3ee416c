"""How long code keeps the interpreter to itself.

Python code on a thread lets others run only where it waits or calls into libraries that let go of the interpreter's
lock. Code that does neither holds up the event loop, and with it every other model's requests.
"""

import threading
from collections.abc import Callable
from itertools import pairwise
from time import perf_counter_ns, sleep
from typing import NamedTuple

_TICK_S = 0.000_2
_CALM_TICKS = 20  # before `run`, to know what a turn is like without it


class Hold(NamedTuple):
    """`held_ns`: for how much of `run_ns` nothing else could run."""

    run_ns: int
    held_ns: int


def measure_hold(run: Callable[[], object]) -> Hold:
    """Call `run` and watch from another thread how often that comes to run meanwhile.

    What is between two of its turns, less a turn as it is without `run`, was held. Raises: what `run` raises.
    """
    ticks: list[int] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(perf_counter_ns())
            sleep(_TICK_S)

    watcher = threading.Thread(target=tick, name="interpreter-hold", daemon=True)
    watcher.start()
    try:
        while len(ticks) < _CALM_TICKS:
            sleep(_TICK_S)
        start = perf_counter_ns()
        run()
        end = perf_counter_ns()
    finally:
        stop.set()
        watcher.join()
    return _hold(ticks, start, end)


def _hold(ticks: list[int], start: int, end: int) -> Hold:
    calm = [later - earlier for earlier, later in pairwise(ticks) if later <= start]
    usual = sorted(calm)[len(calm) // 2] if calm else 0
    during = [start, *[tick for tick in ticks if start < tick < end], end]
    held = sum(max(0, later - earlier - 2 * usual) for earlier, later in pairwise(during))
    return Hold(end - start, held)
