"""What one generator process writes down while it runs, in arrays that cost no objects."""

from array import array

SAMPLE_EVERY = 16
"""Of so many answers, the Server-Timing of one is kept."""


class Journal:
    """Filled by slots and the driver, emptied by whoever sends it on.

    rows: as `records.COLUMNS`, one after the other. gaps: as `records.Gaps`. turns: nanoseconds that the loop was
    busy, one per turn. connects and handshakes: nanoseconds that opening a connection and its TLS took.
    """

    __slots__ = ("connects", "gaps", "handshakes", "rows", "timings", "turns")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.rows = array("q")
        self.gaps = array("q")
        self.turns = array("q")
        self.connects = array("q")
        self.handshakes = array("q")
        self.timings: list[bytes] = []
