"""Where the kernel keeps this process's limits: the directories of cgroups v1 and v2.

`/proc/self/cgroup` says which group of each hierarchy the process is in, `/proc/self/mountinfo` where hierarchies are
mounted and from which of their groups on. The two meet in several ways:

    host, v2           0::/user.slice/a          mount of / at /sys/fs/cgroup           → …/user.slice/a
    host, v1           3:cpu,cpuacct:/a          mount of / at …/cgroup/cpu,cpuacct     → …/cpu,cpuacct/a
    host, hybrid       both, v2 at /sys/fs/cgroup/unified, each controller in one of the two
    container, v1      3:cpu:/docker/7f          mount of /docker/7f                    → the mount point itself
    container, v2      0::/ in a namespace       mount of /                             → the mount point itself
    left its namespace 0::/../b                  mount of / or of /..                   → the mount point or its b
    nothing matches    0::/docker/7f             mount of / without such a group        → the mount point alone

Source: Linux, cgroups(7), cgroup_namespaces(7), proc_pid_mountinfo(5).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROCESS = Path("/proc/self")

_OCTAL = re.compile(r"\\([0-7]{3})")


class _Mount(NamedTuple):
    """A hierarchy, or a part of one, as it is mounted. `controllers` is None for that of v2, which has them all."""

    group: tuple[str, ...]
    point: Path
    controllers: frozenset[str] | None


def governing_directories(controller: str, process: Path = PROCESS) -> Iterator[Path]:
    """The directories whose limits for `controller` bind this process, innermost first: those of parents bind as well.

    `process` is its folder in `/proc`. Not every directory has a file for every limit.
    """
    mounts = list(_mounts(process / "mountinfo"))
    for controllers, group in _memberships(process / "cgroup"):
        if controllers is not None and controller not in controllers:
            continue
        named = [mount for mount in mounts if _leads_to(mount, controller, controllers)]
        found = [(mount.point, below) for mount in named if (below := _below(mount, group)) is not None]
        # A path that belongs to another file system's view names nothing here; what is mounted then speaks alone.
        for point, below in found or [(mount.point, Path()) for mount in named[:1]]:
            directory = point / below
            for folder in (directory, *directory.parents):
                yield folder
                if folder == point:
                    break


def _leads_to(mount: _Mount, controller: str, controllers: frozenset[str] | None) -> bool:
    if controllers is None or mount.controllers is None:
        return controllers is mount.controllers
    return controller in mount.controllers


def _below(mount: _Mount, group: tuple[str, ...]) -> Path | None:
    """Where `group` lies below the mount; None when it does not."""
    rest = group[len(mount.group) :]
    if group[: len(mount.group)] != mount.group or ".." in rest:
        return None
    below = Path(*rest)
    return below if (mount.point / below).is_dir() else None


def _memberships(file: Path) -> Iterator[tuple[frozenset[str] | None, tuple[str, ...]]]:
    """Controllers (None for v2's hierarchy) and group of each line `3:cpu,cpuacct:/group` or `0::/group`."""
    for line in _lines(file):
        number, controllers, group = line.split(":", 2)
        yield None if number == "0" else frozenset(controllers.split(",")), _parts(group)


def _mounts(file: Path) -> Iterator[_Mount]:
    """Of lines `32 31 0:29 /group /mount/point rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct`."""
    for line in _lines(file):
        place, _, kind = line.partition(" - ")
        fields, (filesystem, _, *options) = place.split(" "), kind.split(" ")
        if filesystem not in ("cgroup", "cgroup2"):
            continue
        controllers = frozenset(options[-1].split(",")) if filesystem == "cgroup" else None
        yield _Mount(_parts(_unescaped(fields[3])), Path(_unescaped(fields[4])), controllers)


def _parts(group: str) -> tuple[str, ...]:
    return tuple(part for part in group.split("/") if part)


def _unescaped(path: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), path)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
