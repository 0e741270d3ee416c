"""What the kernel tells of a process. Sources: proc(5), /proc/PID/stat and /proc/PID/statm."""

import os

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessState:
    """Of one process, which may be gone."""

    def __init__(self, pid: int) -> None:
        self._stat = f"/proc/{pid}/stat"
        self._statm = f"/proc/{pid}/statm"

    def is_stopped(self) -> bool:
        """By a signal, not by a debugger."""
        stat = _read(self._stat)
        return stat[stat.rfind(b")") + 2 :][:1] == b"T"

    def private_bytes(self) -> int:
        """Resident memory that is not of files or shared, so without mapped weights; 0 for a process that is gone."""
        fields = _read(self._statm).split()
        return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES if len(fields) > 2 else 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
