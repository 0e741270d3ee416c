"""`transport/shared_memory.py`: 1 and 16 MiB through a descriptor, beside copies out of and into a mapping.

A mapping whose pages have been touched is the least that a private copy can cost. "Untouched pages": of an object that
its client has given a size and written nothing, as it is again before each write.
"""

import mmap
import os
import secrets
from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np

from benchmarks.micro.timing.case import Case
from guepard.transport.shared_memory import SharedMemory

MIB = 1 << 20
SIZES = (1, 16)
LARGEST = SIZES[-1] * MIB


def cases() -> list[Case]:
    key = f"guepard-benchmark-{secrets.token_hex(6)}"
    path = f"/dev/shm/{key}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.truncate(descriptor, LARGEST)
    mapped = np.frombuffer(mmap.mmap(descriptor, LARGEST), np.uint8)
    mapped[:] = 1
    regions = SharedMemory([key])
    regions.register("r", key, 0, LARGEST)
    closed = count()

    def close() -> None:
        if next(closed) == 0:
            regions.unregister(None)
            os.close(descriptor)
            os.unlink(path)

    found = []
    for size in SIZES:
        data, part = np.ones(size * MIB, np.uint8), mapped[: size * MIB]

        def write_anew(data: np.ndarray[tuple[int], np.dtype[np.uint8]] = data) -> None:
            os.truncate(descriptor, 0)
            os.truncate(descriptor, LARGEST)
            regions.write("r", 0, data.data)

        kinds: dict[str, Callable[[], object]] = {
            "read": partial(regions.read, "r", 0, data.size),
            "read a mapping": part.copy,
            "write": partial(regions.write, "r", 0, data.data),
            "write a mapping": partial(np.copyto, part, data),
            "write untouched pages": write_anew,
        }
        found += [Case(f"{kind}, {size} MiB", work, close=close) for kind, work in kinds.items()]
    return found
