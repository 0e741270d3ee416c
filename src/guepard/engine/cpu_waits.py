"""How long threads were ready to run and had no CPU.

Source: Linux, sched-stats: /proc/PID/schedstat tells nanoseconds on a CPU, then nanoseconds ready to run without one.
"""

import os
from contextlib import suppress


def thread_waits_ns(native_id: int | None = None) -> int:
    """Of one thread of this process, by default the calling one, since it began. 0 where the kernel does not tell."""
    return _waits_ns("thread-self" if native_id is None else f"self/task/{native_id}")


def process_waits_ns() -> int:
    """Of all threads that this process has, together. Cost: some 20 µs a thread."""
    with suppress(OSError):
        return sum([_waits_ns(f"self/task/{thread}") for thread in os.listdir("/proc/self/task")])
    return 0


def _waits_ns(thread: str) -> int:
    try:
        with open(f"/proc/{thread}/schedstat", "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError):
        return 0
