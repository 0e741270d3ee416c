"""The protocol object of a connection while the rest of one large body comes.

The kernel then writes the body where it will lie. `data_received` would be handed copies of it, to be copied once more.
"""

import asyncio
from typing import Protocol

# One read; the loop reads up to 32 times before it looks at anything else, which so takes about a millisecond.
_STEP = 262_144


class BodyTaker(Protocol):
    """The connection."""

    def body_room(self, size: int) -> memoryview | None:
        """Where the next bytes of the body belong, `size` at most; None when nothing is missing any more."""
        ...

    def body_came(self, size: int) -> None:
        """So many bytes have been written there."""
        ...

    def body_ended(self, data: bytes) -> None:
        """The body was given up; `data` has come since."""
        ...

    def eof_received(self) -> bool | None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class BodyReceiver(asyncio.BufferedProtocol):
    """To be made for one body: it hands everything to `taker`, which takes its place when the body is there."""

    __slots__ = ("_spare", "_taker")

    def __init__(self, taker: BodyTaker) -> None:
        self._taker = taker
        self._spare = bytearray()

    def get_buffer(self, sizehint: int) -> memoryview | bytearray:
        room = self._taker.body_room(_STEP)
        if room is not None:
            return room
        self._spare = bytearray(_STEP)
        return self._spare

    def buffer_updated(self, nbytes: int) -> None:
        if self._spare:
            self._taker.body_ended(bytes(self._spare[:nbytes]))
        else:
            self._taker.body_came(nbytes)

    def eof_received(self) -> bool | None:
        return self._taker.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._taker.connection_lost(exc)

    def pause_writing(self) -> None:
        self._taker.pause_writing()

    def resume_writing(self) -> None:
        self._taker.resume_writing()
