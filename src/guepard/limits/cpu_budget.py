"""How many CPUs this process may really use.

The host's core count is not it: a container's quota and a task set's affinity are what the kernel enforces, and threads
beyond them only wait for each other. Sources: Linux cgroup v2 `cpu.max`, v1 `cpu.cfs_quota_us`/`cpu.cfs_period_us`;
v2 `cpuset.cpus.effective`, v1 `cpuset.effective_cpus` and `cpuset.cpus`.
"""

import os
from dataclasses import dataclass
from math import floor
from pathlib import Path

from guepard.limits.cgroup import PROCESS, governing_directories

# How much of a fractional quota may lie idle rather than have one thread more than it pays for.
_MAY_LIE_IDLE = 0.2

_CPUSET_FILES = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")


@dataclass(frozen=True, slots=True)
class CpuBudget:
    """What bounds this process, in CPUs: `affinity` of the process, `cpuset` and `quota` of its cgroups.

    None where there is no such bound. The quota is the tightest on the way to the root and may be a fraction.
    """

    affinity: int
    cpuset: int | None = None
    quota: float | None = None

    @property
    def exact(self) -> float:
        return min(bound for bound in (self.affinity, self.cpuset, self.quota) if bound is not None)

    @property
    def cpus(self) -> int:
        """Whole CPUs, at least 1: 1.25 are 1, 1.5 are 2, 2.5 are 2, 2.75 are 3, 4.75 are 4.

        Threads beyond the quota make the kernel stop all of the process at the end of each period of 100 ms, for 25 ms
        with two threads on 1.5 CPUs; a thread less would leave a third of them unused. So it is rounded down unless
        more than a fifth would lie idle.
        """
        whole = floor(self.exact)
        return max(1, whole if whole >= self.exact * (1 - _MAY_LIE_IDLE) else whole + 1)

    def __str__(self) -> str:
        quota = "none" if self.quota is None else f"{self.quota:g}"
        return f"quota {quota}, cpuset {self.cpuset or 'none'}, affinity {self.affinity}"


def cpu_budget(process: Path = PROCESS) -> CpuBudget:
    """`process` is this process's folder in `/proc`. Cost: some 0.2 ms."""
    quotas = [quota for folder in governing_directories("cpu", process) if (quota := _quota(folder)) is not None]
    cpusets = [count for folder in governing_directories("cpuset", process) if (count := _cpuset(folder))]
    return CpuBudget(len(os.sched_getaffinity(0)), min(cpusets, default=None), min(quotas, default=None))


def _quota(folder: Path) -> float | None:
    """CPUs that this one directory allows; None where it sets no quota."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _cpuset(folder: Path) -> int:
    """How many CPUs this one directory lists, as in `0-3,8`; 0 where it does not say."""
    for name in _CPUSET_FILES:
        try:
            text = (folder / name).read_text().strip()
        except OSError:
            continue
        if text:
            return sum(_length(*part.split("-")) for part in text.split(","))
    return 0


def _length(first: str, last: str | None = None) -> int:
    return int(last or first) - int(first) + 1
