"""What is known of each request that ended, as rows of int64, and of each gap between the pieces of a stream.

Generator processes fill `array('q')`s, which cost less than objects, and send their bytes; the parent views them as
numpy columns without a copy. Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]

COLUMNS = ("intended_ns", "sent_ns", "first_ns", "done_ns", "outcome", "received_bytes", "pieces", "payload", "flags")

BLOCKED = 1
"""Flag: was due while every allowed connection was busy, so its late start is the server's doing."""
UNIQUE = 2
"""Flag: its payload was made unlike any other."""
CONNECTED = 4
"""Flag: a connection was opened for it, which its latency includes."""
FOUND_SHIFT = 8
"""The bits above the flags of a blocked request: how many nanoseconds after it was due the generator found so."""


@dataclass(frozen=True, slots=True)
class Records:
    """Requests that ended, in the order of their end within one process.

    intended_ns: when it should have been sent. sent_ns: when its first byte was handed to the kernel, or its
    connection was begun; intended_ns where it never came to that. first_ns: first byte of the answer's content, for
    streams its first piece; done_ns where there was none. pieces: events of a stream, otherwise 0. payload: index in
    the corpus. flags: see above.
    """

    intended_ns: Column
    sent_ns: Column
    first_ns: Column
    done_ns: Column
    outcome: Column
    received_bytes: Column
    pieces: Column
    payload: Column
    flags: Column

    @classmethod
    def view(cls, data: bytes | bytearray | memoryview) -> "Records":
        """Shapes: data is n rows of len(COLUMNS) int64, row after row. Raises: ValueError on a torn row."""
        table = np.frombuffer(data, np.int64).reshape(-1, len(COLUMNS))
        return cls(*table.T)

    def __len__(self) -> int:
        return len(self.intended_ns)

    @property
    def latency_ns(self) -> Column:
        """From the intended send time: what a user would have waited."""
        return self.done_ns - self.intended_ns

    @property
    def is_blocked(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (self.flags & BLOCKED) != 0
        return found

    @property
    def lag_ns(self) -> Column:
        """How late the generator was: until it sent the request, or found that it had no connection for it."""
        return np.where(self.is_blocked, self.flags >> FOUND_SHIFT, self.sent_ns - self.intended_ns)

    @property
    def service_ns(self) -> Column:
        """From the real send time."""
        return self.done_ns - self.sent_ns


@dataclass(frozen=True, slots=True)
class Gaps:
    """Times between two pieces of a stream: when the later one came, and how long it took."""

    at_ns: Column
    gap_ns: Column

    @classmethod
    def view(cls, data: bytes | bytearray | memoryview) -> "Gaps":
        """Shapes: data is n rows of 2 int64."""
        return cls(*np.frombuffer(data, np.int64).reshape(-1, 2).T)
