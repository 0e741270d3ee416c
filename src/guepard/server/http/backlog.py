"""What one client has asked for and does not read."""

from guepard.limits.admission import Admission


class Backlog:
    """`since` when the client has not read, 0 while it keeps up. What is unread counts among the bytes in flight."""

    __slots__ = ("_admission", "_held", "_unread", "since")

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._held = 0
        self._unread = 0
        self.since = 0

    def begin(self, unread: int, now: int) -> None:
        self.since = now
        self._held = self._unread = unread
        self._admission.hold(unread)

    def end(self) -> None:
        """The client has read it, or is gone."""
        self.since = 0
        self._admission.release(self._held)
        self._held = 0

    def is_hopeless(self, unread: int, now: int, patience_ns: int) -> bool:
        """Whether the client has not read a byte for so long. To be asked about once a second."""
        if unread < self._unread:
            self._unread = unread
            self.since = now
            return False
        return now - self.since > patience_ns
