"""Inferences in this process: the same driver, with a function in place of connections.

What is measured is the model with its batching and without any wire. Answers come on threads of the model's choosing; a
descriptor wakes the driver's loop for them.
"""

import os
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Protocol

from guepard.measure.load.client import SlotOwner

Done = Callable[[int], None]
"""Called once, on any thread, with how the inference ended."""


class Submit(Protocol):
    def __call__(self, payload: int, done: Done) -> None:
        """Begin an inference on the payload with this index, without waiting. What cannot begin is done at once."""
        ...


class InProcessClient:
    """Slots that call `submit`."""

    def __init__(self, submit: Submit, owner: SlotOwner) -> None:
        self.submit = submit
        self.owner = owner
        self._ended: deque[tuple[InProcessSlot, int, int, int]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Closed after the last answer: an inference that was abandoned may still end, on a thread of the model.
        weakref.finalize(self, os.close, self._wake)
        owner.poller.add(self._wake, self._answers)

    def open_slot(self) -> "InProcessSlot":
        return InProcessSlot(self)

    def ended(self, slot: "InProcessSlot", serial: int, outcome: int) -> None:
        """Thread-safe."""
        self._ended.append((slot, serial, outcome, time.monotonic_ns()))
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        self.owner.poller.remove(self._wake)

    def _answers(self, mask: int) -> None:
        os.eventfd_read(self._wake)
        # Those that end while these are handled wait for the next turn, or the loop would never get one.
        for _ in range(len(self._ended)):
            slot, serial, outcome, done_ns = self._ended.popleft()
            slot.answered(serial, outcome, done_ns)


class InProcessSlot:
    """One inference at a time. An abandoned one goes on, and its answer is not looked at."""

    __slots__ = ("_client", "_flags", "_payload", "_sent_ns", "_serial", "intended_ns")

    def __init__(self, client: InProcessClient) -> None:
        self.intended_ns = 0
        self._client = client
        self._serial = 0
        self._sent_ns = 0
        self._payload = 0
        self._flags = 0

    def send(self, data: bytes, payload: int, intended_ns: int, flags: int) -> None:
        self.intended_ns = intended_ns
        self._payload = payload
        self._flags = flags
        self._serial += 1
        serial = self._serial
        self._sent_ns = time.monotonic_ns()
        self._client.submit(payload, lambda outcome: self._client.ended(self, serial, outcome))

    def abandon(self, outcome: int) -> None:
        self.answered(self._serial, outcome, time.monotonic_ns())

    def answered(self, serial: int, outcome: int, done_ns: int) -> None:
        if serial != self._serial or not self.intended_ns:
            return
        owner = self._client.owner
        owner.journal.rows.extend(
            (self.intended_ns, self._sent_ns, done_ns, done_ns, outcome, 0, 0, self._payload, self._flags)
        )
        self.intended_ns = 0
        owner.released(self, outcome)
