"""One HTTP request and its answer, blocking, on a connection of its own. For questions, never for load."""

import io
import socket
import ssl
import time
from contextlib import suppress
from http.client import BadStatusLine, HTTPException, HTTPResponse, IncompleteRead, RemoteDisconnected
from typing import Any, NamedTuple

import orjson

from guepard.bench.targets.connection import open_connection, speaks_tls
from guepard.bench.targets.target_refused import TargetRefused
from guepard.measure.load.plan import Endpoint

_MAX_ANSWER = 256 * 2**20
_TLS_ALERT = "\x15\x03"
_HTTP2_SETTINGS = "\x00\x00"
_SECOND_LOOK_S = 3.0
_SWITCHING = 101


class HttpAnswer(NamedTuple):
    """Names of headers are in lower case; of several with one name the last is kept."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float

    def json(self) -> Any:
        """The body, or None if it is no JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


def exchange(endpoint: Endpoint, request: bytes, timeout_s: float) -> HttpAnswer:
    """Send `request`, whole as it is, and read the answer. Everything together takes at most `timeout_s`.

    Raises: TargetRefused for whatever comes instead of an answer in HTTP/1.1.
    """
    start = time.monotonic()
    deadline = start + timeout_s
    where = f"{endpoint.host}:{endpoint.port}"
    with open_connection(endpoint, timeout_s) as connection:
        try:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            with suppress(ConnectionError):  # it may have refused a large body early: its answer says why
                connection.sendall(request)
            method = request[:32].partition(b" ")[0].decode()
            response = HTTPResponse(_Timed(connection, deadline), method=method)  # type: ignore[arg-type]
            response.begin()
            while 100 < response.status < 200 and response.status != _SWITCHING:
                response.headers = None  # type: ignore[assignment]  # begin() returns at once where there are some
                response.begin()  # that was an interim answer such as 103 Early Hints: the final one follows
            body = _read(response, where)
        except TimeoutError:
            raise TargetRefused(
                f"{where}: no complete answer within {timeout_s:g} s; raise --timeout, or look into the server's log"
            ) from None
        except (RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
            raise TargetRefused(_closed(endpoint, where)) from None
        except IncompleteRead:
            raise TargetRefused(
                f"{where}: the connection closed before the answer ended; look into the server's log"
            ) from None
        except BadStatusLine as error:
            raise TargetRefused(_no_http(str(error.args[0]), endpoint, where)) from None
        except ssl.SSLError as error:
            raise TargetRefused(_tls_broke(error, where)) from None
        except (HTTPException, OSError, ValueError) as error:
            raise TargetRefused(f"{where}: no answer in HTTP/1.1 ({type(error).__name__}: {error})") from None
    headers = {name.lower(): value.strip() for name, value in response.getheaders()}
    return HttpAnswer(response.status, headers, body, time.monotonic() - start)


def _read(response: HTTPResponse, where: str) -> bytes:
    parts = []
    size = 0
    while part := response.read(1 << 20):
        parts.append(part)
        size += len(part)
        if size > _MAX_ANSWER:
            raise TargetRefused(f"{where}: an answer of more than {_MAX_ANSWER >> 20} MiB cannot be measured")
    if response.length:
        raise IncompleteRead(b"", response.length)
    return b"".join(parts)


def _closed(endpoint: Endpoint, where: str) -> str:
    if not endpoint.tls and speaks_tls(endpoint, _SECOND_LOOK_S):
        return f"{where}: the server speaks TLS here; write https://{where}"
    return f"{where}: the server closed the connection without an answer; look into its log"


def _tls_broke(error: ssl.SSLError, where: str) -> str:
    if "CERTIFICATE_REQUIRED" in (error.reason or ""):
        return f"{where}: the server wants a certificate of its clients, which bench has not; measure behind that check"
    return f"{where}: TLS failed ({error.reason or error}); check the server's TLS settings"


def _no_http(line: str, endpoint: Endpoint, where: str) -> str:
    if line.startswith(_TLS_ALERT):
        return f"{where}: the server speaks TLS here; write https://{where}"
    if line.startswith(_HTTP2_SETTINGS):
        return f"{where}: the server speaks HTTP/2 alone here; if it is gRPC, write grpc{'s' * endpoint.tls}://{where}"
    return f"{where}: no answer in HTTP/1.1, it begins with {line[:40]!r}; is this the port of an HTTP server?"


class _Timed(io.RawIOBase):
    """A socket that is read until a deadline, as HTTPResponse wants it."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)
