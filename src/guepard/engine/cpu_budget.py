"""How many CPUs this process may really use.

The host's core count is not it: a container's quota and a task set's affinity are what the kernel enforces, and threads
beyond them only wait for each other. Sources: Linux cgroup v2 `cpu.max`, v1 `cpu.cfs_quota_us`/`cpu.cfs_period_us`.
"""

import os
from math import floor
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def cpu_budget(root: Path = _CGROUPS, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Whole CPUs, at least 1: the smaller of the affinity mask and the tightest quota on the way to the root."""
    cpus = float(len(os.sched_getaffinity(0)))
    for directory in _directories(root, membership):
        cpus = min(cpus, _quota(directory))
    return max(1, floor(cpus))


def _directories(root: Path, membership: Path) -> list[Path]:
    """The cgroup directories that govern this process, innermost first; quotas of parents bind as well."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return []
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base = root
        elif "cpu" in controllers.split(","):
            base = root / "cpu"
        else:
            continue
        directory = base / path.lstrip("/")
        while True:
            found.append(directory)
            if directory == base or base not in directory.parents:
                break
            directory = directory.parent
    return found


def _quota(directory: Path) -> float:
    """CPUs that this one directory allows; infinity where it sets no quota."""
    try:
        quota, period = (directory / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (directory / "cpu.cfs_quota_us").read_text().strip()
            period = (directory / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return float("inf")
    if quota in ("max", "-1"):
        return float("inf")
    return int(quota) / int(period)
