"""What does it cost to read and write a client's shared memory through a descriptor instead of mapping it?

Microseconds per MiB, median of several repeats. `mapped` is a copy out of, or into, a mapping whose pages have been
touched before: the least that a private copy can cost.

    python -m benchmarks.micro.shared_memory
"""

import mmap
import os
import secrets
import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np

from guepard.transport.shared_memory import SharedMemory

REPEATS = 25
MIB = 1 << 20
SIZES = (1, 4, 16, 64)
LARGEST = SIZES[-1] * MIB


def microseconds(work: Callable[[], object], before: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        before()
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return median(times) * 1e6


def empty(descriptor: int) -> None:
    """As a client leaves its object that has given it a size and written nothing."""
    os.truncate(descriptor, 0)
    os.truncate(descriptor, LARGEST)


def measure(key: str, descriptor: int, mapped: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> dict[str, list[float]]:
    regions = SharedMemory([key])
    regions.register("r", key, 0, LARGEST)
    found: dict[str, list[float]] = {}
    for size in SIZES:
        data = np.ones(size * MIB, np.uint8)
        part = mapped[: data.size]
        cases: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "read, descriptor": (partial(regions.read, "r", 0, data.size), dict),
            "read, mapped": (part.copy, dict),
            "write, descriptor": (partial(regions.write, "r", 0, data.data), dict),
            "write, mapped": (partial(np.copyto, part, data), dict),
            "write, descriptor, untouched pages": (
                partial(regions.write, "r", 0, data.data),
                partial(empty, descriptor),
            ),
        }
        for name, (work, before) in cases.items():
            found.setdefault(name, []).append(microseconds(work, before) / size)
        mapped[:] = 1
    return found


def main() -> int:
    key = f"guepard-benchmark-{secrets.token_hex(6)}"
    path = f"/dev/shm/{key}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.truncate(descriptor, LARGEST)
        mapped = np.frombuffer(mmap.mmap(descriptor, LARGEST), np.uint8)
        mapped[:] = 1
        print(f"{'microseconds per MiB':36}" + "".join(f"{size:>8} MiB" for size in SIZES))
        for name, times in measure(key, descriptor, mapped).items():
            print(f"{name:36}" + "".join(f"{time:12.0f}" for time in times))
    finally:
        os.close(descriptor)
        os.unlink(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
