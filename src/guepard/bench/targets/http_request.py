"""The bytes of an HTTP/1.1 request."""

import re
from typing import NamedTuple

from guepard.bench.targets.header_lines import Headers, basic_authorization, check_header, overlaid
from guepard.bench.targets.target_url import TargetUrl
from guepard.bench.targets.unique_spots import moved
from guepard.core.errors import ConfigurationError
from guepard.measure.load.plan import Payload, UniqueSpot

_METHOD = re.compile(r"[A-Z][A-Z-]{0,31}")
_WITHOUT_BODY = ("GET", "HEAD", "DELETE", "OPTIONS", "TRACE")
USER_AGENT = "guepard-bench"


class HttpRequest(NamedTuple):
    """One request. `headers` add to those that every request has, or take their places.

    `spot`: where in the body a number may be rewritten.
    """

    method: str
    url: TargetUrl
    headers: Headers = ()
    body: bytes = b""
    spot: UniqueSpot | None = None

    def head(self) -> bytes:
        """Request line and headers, up to the empty line. Raises: ConfigurationError."""
        method = self.method.upper()
        if not _METHOD.fullmatch(method) or method == "CONNECT":
            raise ConfigurationError(f"--method {self.method[:40]!r}: expected a method such as POST")
        own = [("Host", self.url.authority), ("User-Agent", USER_AGENT), ("Accept", "*/*")]
        if self.url.user is not None:
            own.append(basic_authorization(self.url.user, self.url.password))
        for name, value in self.headers:
            check_header(name, value, f"header {name[:80]!r}")
        lines = [f"{method} {self.url.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in overlaid(own, self.headers) if value]
        if self.body or method not in _WITHOUT_BODY:
            lines.append(f"Content-Length: {len(self.body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def payload(self) -> Payload:
        head = self.head()
        return Payload(data=head + self.body, spot=moved(self.spot, len(head)))

    def identity(self) -> bytes:
        """What the corpus's hash takes of it: the body, or what is asked for where there is none."""
        return self.body or f"{self.method} {self.url.target}".encode()
