"""Cgroups with a CPU quota, for processes that a test starts."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import pytest

from guepard.limits.cgroup import governing_directories

_PERIOD_US = 100_000


@contextmanager
def cpu_quota(cpus: float) -> Iterator[Sequence[str]]:
    """Words to put before a command, so that it runs in a group of its own that may use `cpus` CPUs.

    Skips the test, and says why, where this process may not make such groups.
    """
    parent = next(iter(governing_directories("cpu")), None)
    if parent is None:
        pytest.skip("no cgroup hierarchy is mounted that has the cpu controller")
    group = parent / f"guepard-test-{token_hex(4)}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"cgroups cannot be made in {parent}: {error.strerror}")
    try:
        _set_quota(group, cpus)
        yield ["/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        group.rmdir()


def _set_quota(group: Path, cpus: float) -> None:
    quota = str(int(cpus * _PERIOD_US))
    try:
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(quota)
        elif (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
        else:
            pytest.skip(f"{group.parent} does not hand the cpu controller on to groups below it")
    except OSError as error:
        pytest.skip(f"quotas cannot be set in {group.parent}: {error.strerror}")


def runnable_threads(pid: int) -> int:
    """How many threads of a process run, or would if a CPU were free."""
    count = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            stat = Path(f"/proc/{pid}/task/{task}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        count += stat[stat.rindex(")") + 2] == "R"
    return count
