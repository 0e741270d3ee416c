"""What listens, and the listener that speaks HTTP: a socket and the connections it has accepted."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns
from typing import Protocol

from guepard.core.errors import ConfigurationError
from guepard.server.http.connection import HttpConnection
from guepard.server.http.context import HttpContext

_BACKLOG = 1_024
_SWEEP_S = 1.0


def bind(host: str, port: int, option: str) -> socket.socket:
    """A TCP socket that listens; whoever calls waits to be accepted. Raises: ConfigurationError that names `option`."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, proto)
    except OSError as error:
        raise ConfigurationError(f"server.host: {host!r} is no address to listen on: {error}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # Two sockets may be bound to one port as long as neither listens; only this shows that the port is ours.
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise ConfigurationError(
            f"{option}: cannot listen on {host} port {port}: {error.strerror}; "
            "choose another port (0 takes any free one)"
        ) from None
    return bound


class Listener(Protocol):
    """One port and whoever speaks on it. The application calls the methods in this order, on its event loop."""

    @property
    def port(self) -> int: ...

    async def start(self) -> None: ...

    def stop_accepting(self) -> None:
        """No new callers; those that are owed an answer get it."""
        ...

    async def wait_until_empty(self, timeout_s: float) -> None:
        """Wait, for at most `timeout_s`, until nobody is owed an answer."""
        ...

    async def close(self) -> None:
        """Cut off whoever is left and give the port back. Also without `start`, and twice."""
        ...


class HttpListener:
    """Serves HTTP on `bound`. `sweep` runs once a second and enforces every connection's time limits."""

    def __init__(self, bound: socket.socket, context: HttpContext) -> None:
        self._bound = bound
        self._port = int(bound.getsockname()[1])
        self.context = context
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        return self._port

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: HttpConnection(self.context), sock=self._bound, backlog=_BACKLOG
        )
        self._schedule_sweep(loop.call_later)

    def _schedule_sweep(self, call_later: Callable[..., asyncio.TimerHandle]) -> None:
        self._sweeper = call_later(_SWEEP_S, self._sweep, call_later)

    def _sweep(self, call_later: Callable[..., asyncio.TimerHandle]) -> None:
        context = self.context
        context.date.tick()
        now = monotonic_ns()
        context.access_log.tick(now)
        for connection in list(context.connections):
            connection.sweep(now)
        self._schedule_sweep(call_later)

    def stop_accepting(self) -> None:
        """Close the socket; connections that are being answered end with their answer, idle ones now."""
        self.context.draining = True
        if self._server is not None:
            self._server.close()
        for connection in list(self.context.connections):
            connection.drain()

    async def wait_until_empty(self, timeout_s: float) -> None:
        """Wait, for at most `timeout_s`, until every connection has ended."""
        if self.context.connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.context.emptied.wait(), timeout_s)

    async def close(self) -> None:
        """Cut off whoever is left and give the port back."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        self._bound.close()
        for connection in list(self.context.connections):
            connection.abort()
