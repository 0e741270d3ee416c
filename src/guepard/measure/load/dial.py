"""Opens one connection, with TLS if need be, while the loop goes on."""

import socket
import ssl
import time
from collections.abc import Callable
from errno import ECONNREFUSED, EINPROGRESS
from typing import NamedTuple

from guepard.measure.load.client import Address, SlotOwner
from guepard.measure.load.outcomes import End
from guepard.measure.load.poller import READ, WRITE


class Route(NamedTuple):
    """Where to. With TLS the peer must prove that it is `host_name`, and choose `protocol` by ALPN, if there is one."""

    family: int
    address: Address
    tls: ssl.SSLContext | None
    host_name: str
    protocol: str


class Dial:
    """Calls `connected` with a non-blocking socket, which the poller does not watch any more, or `failed` with an End.

    It calls one of them once, never from within the constructor, and none after `close`. Writes into the journal how
    long the connection and its TLS took. Raises: OSError if this machine gives no socket, which isn't the peer's doing.
    """

    def __init__(
        self, owner: SlotOwner, route: Route, connected: Callable[[socket.socket], None], failed: Callable[[int], None]
    ) -> None:
        self.started_ns = self._since_ns = time.monotonic_ns()
        self._owner = owner
        self._route = route
        self._connected = connected
        self._failed = failed
        connection = socket.socket(route.family, socket.SOCK_STREAM)
        self._socket: socket.socket | None = connection
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        owner.poller.add(connection.fileno(), self._connecting, WRITE)
        error = connection.connect_ex(route.address)
        if error not in (0, EINPROGRESS):
            owner.later(lambda: self._fail(_end_of(error)))

    def close(self) -> None:
        self._be_over()
        if self._socket is not None:
            self._owner.poller.remove(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _connecting(self, mask: int) -> None:
        assert self._socket is not None
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._fail(_end_of(error))
            return
        now = time.monotonic_ns()
        self._owner.journal.connects.append(now - self._since_ns)
        self._since_ns = now
        if self._route.tls is None:
            self._succeed()
            return
        fd = self._socket.fileno()
        self._owner.poller.remove(fd)
        plain, self._socket = self._socket, None
        try:
            self._socket = self._route.tls.wrap_socket(
                plain, do_handshake_on_connect=False, server_hostname=self._route.host_name
            )
        except (OSError, ValueError):
            plain.close()
            self._fail(End.TLS_FAILED)
            return
        self._owner.poller.add(fd, self._shaking_hands, READ | WRITE)
        self._shaking_hands(0)

    def _shaking_hands(self, mask: int) -> None:
        assert isinstance(self._socket, ssl.SSLSocket)
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self._owner.poller.change(self._socket.fileno(), READ)
        except ssl.SSLWantWriteError:
            self._owner.poller.change(self._socket.fileno(), WRITE)
        except OSError:
            self._fail(End.TLS_FAILED)
        else:
            self._owner.journal.handshakes.append(time.monotonic_ns() - self._since_ns)
            if self._route.protocol in ("", self._socket.selected_alpn_protocol()):
                self._succeed()
            else:
                self._fail(End.TLS_FAILED)

    def _succeed(self) -> None:
        connection = self._socket
        assert connection is not None
        self._owner.poller.remove(connection.fileno())
        self._socket = None
        connected = self._connected
        self._be_over()
        connected(connection)

    def _fail(self, outcome: int) -> None:
        failed = self._failed
        self.close()
        failed(outcome)

    def _be_over(self) -> None:
        """Let go of the callers, who hold this: generators run without collecting cycles."""
        self._connected = self._failed = _nobody


def _end_of(error: int) -> int:
    return End.REFUSED if error == ECONNREFUSED else End.UNREACHABLE


def _nobody(_: object) -> None:
    pass
