"""How many CPUs this process may really use.

The host's core count is not it: a container's quota and a task set's affinity are what the kernel enforces, and threads
beyond them only wait for each other. Sources: Linux cgroup v2 `cpu.max`, v1 `cpu.cfs_quota_us`/`cpu.cfs_period_us`.
"""

import os
from math import floor
from pathlib import Path

from guepard.limits.cgroup import MEMBERSHIP, ROOT, governing_directories


def cpu_budget(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int:
    """Whole CPUs, at least 1: the smaller of the affinity mask and the tightest quota on the way to the root."""
    cpus = float(len(os.sched_getaffinity(0)))
    for directory in governing_directories("cpu", root, membership):
        cpus = min(cpus, _quota(directory))
    return max(1, floor(cpus))


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
