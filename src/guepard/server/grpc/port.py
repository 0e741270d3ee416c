"""The gRPC port and the library's server behind it, which is replaced if it ends by itself.

What the library decides alone: framing, compression, the size limit of a message (RESOURCE_EXHAUSTED) and HTTP/2's own
bounds. Since it registers methods by name, grpc.aio ends its whole server over one call whose method name is not UTF-8:
it closes the port, lets the calls inside finish and logs why. A new server then takes the port.
"""

import asyncio
import logging
import socket

import grpc

from guepard.core.errors import ConfigurationError
from guepard.server.listener import bind

log = logging.getLogger(__name__)

COMPRESSION_LEVELS = ("none", "low", "medium", "high")

_FOREVER_S = 86_400.0
_MILLISECOND_NS = 1_000_000
_MAX_INT = 2**31 - 1  # of the library's options
_LOOK_S = 0.1
_MAX_METADATA = 65_536  # as much as an HTTP head may be
# Of calls that no turn of the loop has seen yet, the library itself would end some beyond 1,000 and all beyond 3,000 as
# CANCELLED, which says nothing of overload, is in no log, and is what no client tries again. A turn takes them all and
# the models' own bounds then say how long to wait.
_MAX_PENDING = 1_048_576

# Clients may ask whether the server is still there every 10 s, also without a call; the library's own rule is every
# 5 minutes, and it cuts off whoever asks more often. The server itself asks after a minute of silence.
_KEEP_ALIVE = {
    "grpc.keepalive_time_ms": 60_000,
    "grpc.keepalive_timeout_ms": 20_000,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.http2.max_pings_without_data": 0,
    "grpc.http2.min_ping_interval_without_data_ms": 9_000,
}


class GrpcPort:
    """Hands every call to `routes`. To be made, started and stopped on one event loop."""

    def __init__(
        self,
        routes: grpc.GenericRpcHandler,
        max_message_bytes: int,
        header_timeout_ns: int,
        compression_level: str,
    ) -> None:
        self._routes = routes
        self._max_message_bytes = max_message_bytes
        self._opening_ms = max(1, min(header_timeout_ns // _MILLISECOND_NS, _MAX_INT))
        self._compression_level = COMPRESSION_LEVELS.index(compression_level)
        self._host = ""
        self.number = 0
        self._server = self._new_server()
        self._accepts = False
        self._watch: asyncio.Task[None] | None = None
        self._ending: dict[asyncio.Future[None], grpc.aio.Server] = {}

    def bind(self, host: str, number: int) -> None:
        """Take the port. Raises: ConfigurationError."""
        # Says better than the library why a port cannot be had, and which of a name's addresses it is: the library
        # would listen on all of them.
        with bind(host, number, "server.grpc_port") as probe:
            self._host = _address_of(probe)
        try:
            self.number = self._take(number)
        except RuntimeError:
            raise ConfigurationError(
                f"server.grpc_port: cannot listen on {host} port {number}; choose another port (0 takes any free one)"
            ) from None

    async def start(self) -> None:
        await self._server.start()
        self._accepts = True
        self._watch = asyncio.ensure_future(self._replace_the_ended())

    def stop_accepting(self) -> None:
        if self._accepts:
            self._accepts = False
            self._end(self._server)

    async def wait_until_empty(self, timeout_s: float) -> None:
        if self._ending:
            await asyncio.wait(set(self._ending), timeout=timeout_s)

    async def close(self) -> None:
        self._accepts = False
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})
        for server in (self._server, *self._ending.values()):
            await server.stop(0)
        await asyncio.gather(*self._ending)

    def _new_server(self) -> grpc.aio.Server:
        options = {
            "grpc.max_receive_message_length": self._max_message_bytes,
            "grpc.max_send_message_length": -1,
            "grpc.default_compression_level": self._compression_level,
            "grpc.max_metadata_size": _MAX_METADATA,  # between the two the library refuses by chance
            "grpc.absolute_max_metadata_size": _MAX_METADATA,
            "grpc.server_handshake_timeout_ms": self._opening_ms,  # until a new connection has sent its settings
            "grpc.server.max_pending_requests": _MAX_PENDING,
            "grpc.server.max_pending_requests_hard_limit": _MAX_PENDING,
            "grpc.so_reuseport": 0,  # a port that is taken is an error, not a second server behind it
            **_KEEP_ALIVE,
        }
        return grpc.aio.server(handlers=[self._routes], options=list(options.items()))

    def _take(self, number: int) -> int:
        """Raises: RuntimeError when the port cannot be had."""
        address = f"[{self._host}]:{number}" if ":" in self._host else f"{self._host}:{number}"
        return int(self._server.add_insecure_port(address))

    def _end(self, server: grpc.aio.Server) -> None:
        """Let the calls inside `server` finish."""
        ending = asyncio.ensure_future(server.stop(_FOREVER_S))
        self._ending[ending] = server
        ending.add_done_callback(self._ending.pop)

    async def _replace_the_ended(self) -> None:
        while self._accepts:
            try:
                await self._server.wait_for_termination(_LOOK_S)
            except Exception as error:
                if self._accepts:
                    cause = type(error).__name__
                    log.warning("the gRPC library ended its server over a %s; another takes its place", cause)
                    self._end(self._server)
                    await self._replace()

    async def _replace(self) -> None:
        while self._accepts:
            self._server = self._new_server()
            try:
                self._take(self.number)
            except RuntimeError:  # the old server has not let go of the port yet
                await asyncio.sleep(_LOOK_S)
            else:
                await self._server.start()
                return


def _address_of(bound: socket.socket) -> str:
    """Of a name such as `localhost` the library would take every address, HTTP takes the first."""
    address, _ = socket.getnameinfo(bound.getsockname(), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    return address


def _is_ours(record: logging.LogRecord) -> bool:
    """False for what any caller could fill the log with, each time with a traceback: metadata that is not UTF-8, which
    the library then reads as Latin-1, and leaving while the answer is being sent.
    """
    error = record.exc_info[1] if record.exc_info else None
    left = isinstance(error, grpc.aio.InternalError) and str(error).startswith('Failed "execute_batch"')
    return not left and not isinstance(error, UnicodeDecodeError)


logging.getLogger("grpc._cython.cygrpc").addFilter(_is_ours)
