"""A folder that nobody else can change, or a reason why there is none.

What lies in a cache is mapped into memory and executed upon, so whoever can write there decides what models answer. The
way to the folder is walked from the root as ssh walks it to its keys: every folder and every link on it must belong to
this user or to root, and none may be open to everybody's writing unless it is sticky.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

_MAX_LINKS = 40


class UnsafeFolder(OSError):
    """Somebody else could change what lies there. The text is fit for the log, remedy included."""


def private_folder(path: Path) -> Path:
    """`path`, made with mode 0700 where it is missing.

    Raises: UnsafeFolder; OSError when it is not there and cannot be made.
    """
    path = Path(os.path.abspath(path))
    _check_way(path, _MAX_LINKS)
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)  # not by parents=True, which would leave those to the umask
    found = path.stat()
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != 0o700:
        with suppress(OSError):  # a file system that is mounted to be read only
            path.chmod(0o700)
            found = path.stat()
    if found.st_mode & 0o022:
        raise UnsafeFolder(f"{path} may be written by others; run: chmod 700 {path}")
    return path


def _check_way(path: Path, links_left: int) -> None:
    if not links_left:
        raise UnsafeFolder(f"{path} is behind too many links")
    trusted = (os.geteuid(), 0)
    for step in (*reversed(path.parents), path):
        try:
            found = step.lstat()
        except FileNotFoundError:
            return  # what is missing will be made, beneath folders that have passed
        if found.st_uid not in trusted:
            raise UnsafeFolder(f"{step} belongs to another user; choose another server.cache_dir")
        if stat.S_ISLNK(found.st_mode):
            _check_way(Path(os.path.normpath(step.parent / step.readlink())), links_left - 1)
        elif not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(f"{step} is not a folder; choose another server.cache_dir")
        elif found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            raise UnsafeFolder(f"everybody may write to {step}; choose another server.cache_dir")
