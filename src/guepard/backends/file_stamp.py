"""Is this file still the one whose content was looked at?

The kernel moves the change time of a file with each write, and no program can set it. So a file whose stamp is as it
was need not be read again: not on this boot. A power cut can leave a file with its old times and without its last
content, which is why a stamp from before the last boot says nothing.
"""

import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Change times are as coarse as the kernel's tick, and a file system's may be coarser: a file that was written a moment
# ago may be written again without a change of its stamp.
_SETTLED_NS = 2_000_000_000

Stamp = list[Any]


def stamp(files: Iterable[Path]) -> Stamp:
    """What says that none of `files` was written since, ready for JSON. Links are not followed.

    Raises: OSError when one is missing or is no regular file.
    """
    return [_boot_id(), *[_identity(file) for file in files]]


def is_settled(files: Iterable[Path]) -> bool:
    """Whether a stamp of `files` that is taken now can be relied on later."""
    return bool(_boot_id()) and all(time.time_ns() - file.lstat().st_ctime_ns > _SETTLED_NS for file in files)


def _identity(file: Path) -> list[int]:
    found = file.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{file.name} is not a regular file")
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
