"""The requests that a client has sent ahead of their answers."""

import asyncio
from collections import deque

from guepard.limits.admission import Admission
from guepard.server.http.message_reader import Message

_MAX_AHEAD = 16


class Ahead(deque[Message]):
    """In the order of their coming. Beyond `_MAX_AHEAD` the connection is not read from until some are done.

    A deque, since every answer asks whether there are any.
    """

    __slots__ = ()

    def wait(self, message: Message, transport: asyncio.Transport | None) -> None:
        """Put `message` behind the others."""
        self.append(message)
        if len(self) >= _MAX_AHEAD and transport is not None:
            transport.pause_reading()

    def ask_for_more(self, transport: asyncio.Transport | None) -> None:
        """Have the connection read on where there is room."""
        if transport is not None and len(self) < _MAX_AHEAD:
            transport.resume_reading()

    def drop(self, admission: Admission) -> None:
        """Forget them all: nobody will read the answers."""
        admission.release(sum([message.permit for message in self]))
        self.clear()
