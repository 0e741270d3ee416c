"""How much memory this process may use. Sources: Linux cgroup v2 `memory.max`, v1 `memory.limit_in_bytes`, sysconf."""

import os
from pathlib import Path

from guepard.limits.cgroup import PROCESS, governing_directories

GIB = 2**30


def memory_limit(process: Path = PROCESS) -> int:
    """Bytes: the smaller of the machine's memory and the tightest cgroup limit on the way to the root.

    `process` is this process's folder in `/proc`.
    """
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for directory in governing_directories("memory", process):
        for file in ("memory.max", "memory.limit_in_bytes"):
            limit = min(limit, _read(directory / file, limit))
    return limit


def default_inflight_bytes() -> int:
    """The smaller of 1 GiB and a quarter of the memory limit."""
    return min(GIB, memory_limit() // 4)


def default_pool_bytes() -> int:
    """For the server's own memory pool: the smaller of 1 GiB and an eighth of the memory limit."""
    return min(GIB, memory_limit() // 8)


def _read(path: Path, otherwise: int) -> int:
    try:
        text = path.read_text().strip()
    except OSError:
        return otherwise
    return int(text) if text.isdigit() else otherwise
