"""A cgroup with a CPU quota, made for one measurement and removed after it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
PERIOD_US = 100_000


class NoQuotaError(RuntimeError):
    """Why no quota can be set here."""


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """A cgroup of version 1 or 2 at `directory`."""

    directory: Path

    @property
    def prefix(self) -> tuple[str, ...]:
        """A command under which a process runs in the group."""
        return ("sh", "-c", f'echo $$ > "{self.directory}/cgroup.procs" && exec "$@"', "sh")

    def periods(self) -> tuple[int, int]:
        """How many periods the group had work in, and in how many of them it was stopped at its quota."""
        counts = dict(re.findall(r"^(\w+) (\d+)$", (self.directory / "cpu.stat").read_text(), re.MULTILINE))
        return int(counts["nr_periods"]), int(counts["nr_throttled"])


@contextmanager
def cpu_quota(cpus: float) -> Iterator[CpuQuota]:
    """A new group under the one of this process. Raises: NoQuotaError, with what would have to be otherwise."""
    parent, is_v2 = _parent()
    directory = parent / f"guepard-bench-{uuid4().hex[:8]}"
    quota_us = int(cpus * PERIOD_US)
    try:
        directory.mkdir()
    except OSError as error:
        raise NoQuotaError(
            f"{parent} lets nobody make a cgroup: {error.strerror}; run as root on a writable tree"
        ) from None
    try:
        try:
            if is_v2:
                (directory / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            else:
                (directory / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (directory / "cpu.cfs_quota_us").write_text(str(quota_us))
        except OSError as error:
            hint = f"; is `cpu` in {parent}/cgroup.subtree_control?" if is_v2 else ""
            raise NoQuotaError(f"{directory} takes no quota: {error.strerror}{hint}") from None
        yield CpuQuota(directory)
    finally:
        with suppress(OSError):
            directory.rmdir()


def _parent() -> tuple[Path, bool]:
    """The group of this process in the hierarchy that has the cpu controller, and whether that is of version 2."""
    for line in MEMBERSHIP.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return _existing(ROOT / "cpu", path), False
    controllers_file = ROOT / "cgroup.controllers"
    if controllers_file.exists() and "cpu" in controllers_file.read_text().split() and os.access(ROOT, os.W_OK):
        return ROOT, True
    raise NoQuotaError(f"no cgroup hierarchy with the cpu controller is writable below {ROOT}")


def _existing(base: Path, path: str) -> Path:
    """In a container the path of the membership may not exist below its own root."""
    directory = base / path.lstrip("/")
    return directory if directory.is_dir() else base
