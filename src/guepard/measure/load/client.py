"""The seam between the driver, which knows when, and clients, which know how.

A slot carries one request at a time. The driver calls `send` on a free slot; the slot writes exactly one row into the
journal, whatever happens, and then calls `Driver.released`. It never calls `released` from within `send`, or the
driver's queue would be worked off by recursion; what fails at once is handed to `Driver.later`.
"""

from collections.abc import Callable
from typing import Protocol

from guepard.measure.load.journal import Journal
from guepard.measure.load.poller import Poller

Address = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
"""What `socket.connect` takes."""


class Slot(Protocol):
    intended_ns: int
    """Of the request under way; 0 when there is none."""

    def send(self, data: bytes, payload: int, intended_ns: int, flags: int) -> None:
        """Begin a request; connects first if need be. `payload` is its index in the plan."""
        ...

    def abandon(self, outcome: int) -> None:
        """End the request under way with `outcome`, and whatever would carry its late answer. Calls `released`."""
        ...


class Client(Protocol):
    def open_slot(self) -> Slot:
        """A free slot. Nothing is connected yet."""
        ...

    def close(self) -> None: ...


class SlotOwner(Protocol):
    """The driver, as clients see it."""

    poller: Poller
    journal: Journal

    def released(self, slot: Slot, outcome: int) -> None:
        """`slot` is free, after a request that ended with `outcome`."""
        ...

    def later(self, call: Callable[[], None]) -> None:
        """Run `call` before the loop waits again."""
        ...
