"""What is ready on many descriptors, waited for with a precision of microseconds.

`epoll_wait` counts its time-out in whole milliseconds, which is longer than the gap between two requests at a thousand
a second. `select` counts in microseconds, and a set of descriptors that epoll watches is one descriptor to it.
"""

import math
import select
import time
from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT

_SELECT_LIMIT = 1_024
"""`select` cannot watch descriptors from this number on (FD_SETSIZE)."""

Handler = Callable[[int], None]
"""Gets the mask of what is ready; errors and hang-ups come with it."""


class Poller:
    """Descriptors and who handles them. For one thread."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched = (self._epoll.fileno(),)
        self._has_select = self._epoll.fileno() < _SELECT_LIMIT
        self._handlers: dict[int, Handler] = {}

    def add(self, fd: int, handler: Handler, mask: int = READ) -> None:
        self._handlers[fd] = handler
        self._epoll.register(fd, mask)

    def change(self, fd: int, mask: int) -> None:
        self._epoll.modify(fd, mask)

    def hand_over(self, fd: int, handler: Handler) -> None:
        self._handlers[fd] = handler

    def remove(self, fd: int) -> None:
        """To be called before the descriptor is closed."""
        del self._handlers[fd]
        self._epoll.unregister(fd)

    def ready(self, timeout_s: float) -> list[tuple[int, int]]:
        """Descriptors that are ready, within `timeout_s`. Cost: at most two system calls."""
        if timeout_s > 0:
            if not self._has_select:
                return self._ready_without_select(timeout_s)
            if not select.select(self._watched, (), (), timeout_s)[0]:
                return []
        return self._epoll.poll(0)

    def _ready_without_select(self, timeout_s: float) -> list[tuple[int, int]]:
        """The whole milliseconds of the time-out in epoll, the rest asleep: what comes in that rest waits for its end,
        but nothing leaves late."""
        began_s = time.monotonic()
        found = self._epoll.poll(math.floor(timeout_s * 1_000) / 1_000)
        rest_s = timeout_s - (time.monotonic() - began_s)
        if found or rest_s <= 0:
            return found
        time.sleep(rest_s)
        return self._epoll.poll(0)

    def handle(self, ready: list[tuple[int, int]]) -> None:
        handlers = self._handlers
        for fd, mask in ready:
            handler = handlers.get(fd)
            if handler is not None:  # an earlier handler of this turn may have removed it
                handler(mask)

    def close(self) -> None:
        self._epoll.close()
