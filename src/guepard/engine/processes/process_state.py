"""What the kernel tells of a process. Sources: proc(5), /proc/PID/stat and /proc/PID/statm; PF_EXITING in sched.h."""

import os

_EXITING = 0x4
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessState:
    """Of one process, which may be gone."""

    def __init__(self, pid: int) -> None:
        self._stat = f"/proc/{pid}/stat"
        self._statm = f"/proc/{pid}/statm"

    def is_stopped(self) -> bool:
        """By a signal, not by a debugger."""
        return self._fields()[:1] == [b"T"]

    def is_ending(self) -> bool:
        """Whether the kernel is ending it, or has: what was open in it is closed after it says so here."""
        flags = self._fields()[6:7]
        return not flags or int(flags[0]) & _EXITING != 0

    def private_bytes(self) -> int:
        """Resident memory that is not of files or shared, so without mapped weights; 0 for a process that is gone."""
        fields = _read(self._statm).split()
        return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES if len(fields) > 2 else 0

    def _fields(self) -> list[bytes]:
        """What stands after the name; nothing for a process that is gone."""
        stat = _read(self._stat)
        return stat[stat.rfind(b")") + 1 :].split()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
