"""A mark that a load leaves while it lasts, so that the next server knows of one that never ended.

An engine that takes the process down while it loads, or hangs until somebody ends the process, leaves no error to fall
back from: without the mark, a decision for it would take down every server that finds it.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class LoadMark:
    """At `path`, whose folder is there; None: nothing is marked. Raises: nothing.

    The lock says that whoever set the mark lives, on this machine or in another container of it.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._descriptor: int | None = None

    def set(self) -> int:
        """How many loads in a row, before the one that begins now, were begun and never ended."""
        if self._path is None:
            return 0
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(self._path, flags, 0o600)
        except OSError:
            return 0
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while another server loads it too
            unfinished = len(os.pread(descriptor, 16, 0))
            os.pwrite(descriptor, b"!", unfinished)
        except OSError:
            os.close(descriptor)
            return 0
        self._descriptor = descriptor
        return unfinished

    def clear(self) -> None:
        """The load has ended, however."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None or self._path is None:
            return
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        os.close(descriptor)
