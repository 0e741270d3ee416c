"""What a generator process and its parent say to each other: a kind, a length, and that many bytes."""

import socket
import struct
from enum import IntEnum

from msgspec import Struct

_HEAD = struct.Struct("<BI")
_READ_BYTES = 1 << 20


class Frame(IntEnum):
    PLAN = 1
    """A LoadPlan and a share of it, in msgpack. To the process, which answers READY or ERROR."""
    READY = 2
    START = 3
    """When, in nanoseconds of the monotonic clock, as text."""
    STOP = 4
    """Send nothing more."""
    ROWS = 5
    GAPS = 6
    TURNS = 7
    CONNECTS = 8
    HANDSHAKES = 9
    TIMINGS = 10
    """A list of bytes, in msgpack."""
    ENDED = 11
    """Everything has ended. A Usage, in msgpack."""
    ERROR = 12
    """A text. The run is given up."""


class Share(Struct, frozen=True):
    index: int
    count: int


class Usage(Struct, frozen=True, kw_only=True):
    """What one process's share of a run cost. Times in nanoseconds."""

    cpu_ns: int
    wall_ns: int
    runqueue_wait_ns: int | None
    """How long it was ready to run and had no CPU; None where the kernel does not tell."""
    priority: int


def frame(kind: Frame, data: bytes = b"") -> bytes:
    return _HEAD.pack(kind, len(data)) + data


class FrameReader:
    """Frames out of bytes, however they were cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[Frame, bytes]]:
        buffer = self._buffer
        buffer += data
        frames = []
        begin = 0
        while len(buffer) - begin >= _HEAD.size:
            kind, length = _HEAD.unpack_from(buffer, begin)
            end = begin + _HEAD.size + length
            if end > len(buffer):
                break
            frames.append((Frame(kind), bytes(buffer[begin + _HEAD.size : end])))
            begin = end
        del buffer[:begin]
        return frames

    def read(self, connection: socket.socket) -> list[tuple[Frame, bytes]]:
        """What one read brings. Raises: EOFError when the other side has gone."""
        data = connection.recv(_READ_BYTES)
        if not data:
            raise EOFError
        return self.feed(data)
