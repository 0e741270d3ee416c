"""How much memory this process may use. Sources: Linux cgroup v2 `memory.max`, v1 `memory.limit_in_bytes`, sysconf."""

import os
from pathlib import Path

GIB = 2**30


def memory_limit(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes: the smaller of the machine's memory and the tightest cgroup limit on the way to the root."""
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return limit
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, file = root, "memory.max"
        elif "memory" in controllers.split(","):
            base, file = root / "memory", "memory.limit_in_bytes"
        else:
            continue
        directory = base / path.lstrip("/")
        for folder in (directory, *directory.parents):
            limit = min(limit, _read(folder / file, limit))
            if folder == base:
                break
    return limit


def default_inflight_bytes() -> int:
    """The smaller of 1 GiB and a quarter of the memory limit."""
    return min(GIB, memory_limit() // 4)


def _read(path: Path, otherwise: int) -> int:
    try:
        text = path.read_text().strip()
    except OSError:
        return otherwise
    return int(text) if text.isdigit() else otherwise
