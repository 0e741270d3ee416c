"""How long threads had a CPU, and how long they were ready to run and had none.

Source: Linux, sched-stats: /proc/PID/schedstat tells nanoseconds on a CPU, then nanoseconds ready to run without one.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from time import thread_time_ns
from typing import NamedTuple


class CpuTime(NamedTuple):
    """Of a thread since it began. Units: nanoseconds; 0 where the kernel does not tell."""

    had: int
    waited: int


def thread_waits_ns(native_id: int | None = None) -> int:
    """Of one thread of this process, by default the calling one."""
    return _cpu_time("thread-self" if native_id is None else f"self/task/{native_id}").waited


def cpu_times(helpers: Iterable[int]) -> list[CpuTime]:
    """Of the calling thread, then of `helpers`, threads of this process. Cost: some 20 µs each.

    What a thread that has a CPU right now is said to have had is a few milliseconds old, but for the calling one.
    """
    own = CpuTime(thread_time_ns(), thread_waits_ns())
    return [own, *[_cpu_time(f"self/task/{thread}") for thread in helpers]]


def thread_ids() -> set[int]:
    """Native ids of all threads of this process, engines' own too. Empty where the kernel does not tell."""
    with suppress(OSError):
        return set(map(int, os.listdir("/proc/self/task")))
    return set()


def _cpu_time(thread: str) -> CpuTime:
    try:
        with open(f"/proc/{thread}/schedstat", "rb") as file:
            had, waited, _ = map(int, file.read().split())
            return CpuTime(had, waited)
    except (OSError, ValueError):
        return CpuTime(0, 0)
