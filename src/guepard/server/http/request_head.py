"""The head of one HTTP request. Nothing of it changes once an endpoint has looked at it, so it may be shared."""

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from guepard.core.errors import InputError
from guepard.protocols.accept_encoding import negotiate
from guepard.server.http.response_writer import JOIN_LIMIT
from guepard.telemetry.metrics import RouteCalls

if TYPE_CHECKING:
    from guepard.server.http.endpoint import Endpoint

Header = tuple[bytes, bytes]

_UPGRADE_HEADERS = (b"upgrade", b"http2-settings", b"connection")


class RequestHead:
    """Method, target and headers. Names of `headers` are lower-case; repeated ones are joined by a comma."""

    __slots__ = (
        "calls",
        "coded_from",
        "coding",
        "content_length",
        "endpoint",
        "expects_continue",
        "headers",
        "is_chunked",
        "is_head",
        "is_plain",
        "keep_alive",
        "method",
        "note",
        "params",
        "path",
        "plain_below",
        "query",
        "request_id",
        "target",
        "upgrades",
        "version",
    )

    def __init__(
        self, method: str, target: bytes, headers: list[Header], *, version: str = "1.1", keep_alive: bool = True
    ) -> None:
        self.method = method
        self.is_head = method == "HEAD"
        self.target = target
        self.version = version
        self.keep_alive = keep_alive
        self.headers = _joined(headers)
        path, _, query = target.partition(b"?")
        self.path = _decoded(path)
        self.query = query
        length = self.headers.get(b"content-length")
        self.content_length = int(length) if length else 0
        self.is_chunked = b"transfer-encoding" in self.headers
        self.upgrades = b"upgrade" in self.headers
        self.expects_continue = self.headers.get(b"expect", b"").lower() == b"100-continue"
        self.request_id = self.headers.get(b"x-request-id", b"")[:128]
        # Whether an answer's head says nothing beyond what every one does.
        self.is_plain = keep_alive and version == "1.1" and not self.is_head and not self.request_id
        # How answers are coded, and from how many bytes on.
        self.coding, self.coded_from = negotiate(self.headers.get(b"accept-encoding"))
        # Below so many bytes answers go out in one piece, with nothing special about them.
        self.plain_below = min(self.coded_from, JOIN_LIMIT) if self.is_plain else 0
        self.calls: RouteCalls | None = None  # where the durations of such requests are counted
        self.endpoint: Endpoint
        self.params: dict[str, str] = {}  # what the route's template names
        self.note: Any = None  # whatever the endpoint worked out from this head

    def text(self, name: bytes) -> str | None:
        """A header's value, or None when the request has no such header."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def without_upgrade(self) -> bytes:
        """The wire form of this head without its offer to switch to another protocol."""
        lines = [b"%b %b HTTP/%b" % (self.method.encode(), self.target, self.version.encode())]
        lines += [b"%b: %b" % header for header in self.headers.items() if header[0] not in _UPGRADE_HEADERS]
        lines.append(b"connection: keep-alive" if self.keep_alive else b"connection: close")
        return b"\r\n".join((*lines, b"", b""))


def _joined(headers: list[Header]) -> dict[bytes, bytes]:
    joined: dict[bytes, bytes] = {}
    for name, value in headers:
        name, value = name.lower(), value.strip(b" \t")
        if name not in joined:
            joined[name] = value
        elif name == b"host":
            raise InputError("the Host header is given twice")
        else:
            joined[name] = joined[name] + b", " + value
    return joined


def _decoded(path: bytes) -> str:
    """The path with %-escapes resolved. An escaped slash stays one name's worth of text and so matches no route."""
    if path.startswith((b"http://", b"https://")):  # absolute-form, as clients send to proxies
        _, _, rest = path.partition(b"://")
        path = b"/" + rest.partition(b"/")[2]
    if b"%" not in path:
        return path.decode("latin-1")
    if b"%2f" in path.lower():
        return path.decode("latin-1")
    return unquote(path.decode("latin-1"), errors="replace")
