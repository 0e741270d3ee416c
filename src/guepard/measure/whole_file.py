"""Files that are either the old one or the new one, never half of one."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from guepard.core.errors import ConfigurationError


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Put `data` at `path`: whoever opens it finds what was there before, or all of this.

    It is written beside `path` and renamed. An interruption, Ctrl-C too, leaves the old file and nothing else. What is
    no regular file, /dev/stdout or a pipe, is written to as it is.
    Raises: ConfigurationError, which names the path, if it cannot be written.
    """
    try:
        _write(Path(path), data)
    except OSError as error:
        raise ConfigurationError(_refusal(path, error)) from None


def ensure_writable(path: str | os.PathLike[str]) -> None:
    """Find out before the work whether `write_whole` would fail after it. Raises: ConfigurationError."""
    target = Path(path).resolve()
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = 0
    except OSError as error:
        raise ConfigurationError(_refusal(path, error)) from None
    if stat.S_ISDIR(mode):
        raise ConfigurationError(f"cannot write {path}: it is a folder; name a file in it")
    if mode and not stat.S_ISREG(mode):
        return
    try:
        spare = _beside(target)
        os.close(_create(spare))
        spare.unlink()
    except OSError as error:
        raise ConfigurationError(_refusal(path, error)) from None


def _write(path: Path, data: bytes) -> None:
    target = path.resolve()
    mode = target.stat().st_mode if target.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        target.write_bytes(data)
        return
    spare = _beside(target)
    try:
        with os.fdopen(_create(spare), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            spare.chmod(stat.S_IMODE(mode))
        spare.replace(target)
    except BaseException:
        with suppress(OSError):
            spare.unlink()
        raise


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:200]}.{os.getpid()}.{os.urandom(4).hex()}")


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _refusal(path: str | os.PathLike[str], error: OSError) -> str:
    return f"cannot write {os.fspath(path)}: {error.strerror or error}; name a file in a folder that you may write to"
