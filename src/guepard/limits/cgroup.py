"""Where the kernel keeps this process's limits: the directories of cgroups v1 and v2."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def governing_directories(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """The directories whose limits for `controller` bind this process, innermost first: those of parents bind as well.

    In a container the path of the membership may not exist below its own root; then the root alone speaks.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base = root
        elif controller in controllers.split(","):
            base = root / controller
        else:
            continue
        directory = base / path.lstrip("/")
        for folder in (directory, *directory.parents):
            yield folder
            if folder == base:
                break
