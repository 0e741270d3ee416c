"""One URL of a target, taken apart."""

import re
from typing import NamedTuple, Self
from urllib.parse import quote, unquote, urlsplit

from guepard.core.errors import ConfigurationError
from guepard.measure.load.plan import Endpoint
from guepard.settings.command_words import without_secrets

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PORTS = {"http": 80, "https": 443}
_SCHEMES = ("http", "https", "grpc", "grpcs")
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"


class TargetUrl(NamedTuple):
    """`path` and `query` are as they go into a request, percent-encoded; the path of a bare host is empty."""

    scheme: str
    host: str
    port: int
    path: str = ""
    query: str = ""
    user: str | None = None
    password: str = ""

    @classmethod
    def read(cls, text: str, field: str = "URL") -> Self:
        """`text` as a person writes it; without a scheme it is http.

        Raises: ConfigurationError.
        """
        said = f"{field} {text[:200]!r}"
        if not text or any(character <= " " or character == "\x7f" for character in text):
            raise ConfigurationError(f"{said}: expected a URL such as http://127.0.0.1:8000, without blanks")
        if not _SCHEME.match(text):
            text = f"http://{text}"
        try:
            parts = urlsplit(text)
            port, host = parts.port, parts.hostname
        except ValueError as error:
            raise ConfigurationError(f"{said}: no URL ({error})") from None
        scheme = parts.scheme.lower()
        if scheme not in _SCHEMES:
            raise ConfigurationError(f"{said}: {scheme} is not measured; use one of {', '.join(_SCHEMES)}")
        if not host:
            raise ConfigurationError(f"{said}: no host; write http://HOST:PORT")
        if port is None and scheme not in _PORTS:
            raise ConfigurationError(f"{said}: no port; write {scheme}://{host}:8001 or whichever it is")
        if port == 0:
            raise ConfigurationError(f"{said}: port 0 leads nowhere; name the port that the server listens on")
        try:
            host = host if host.isascii() else host.encode("idna").decode()
        except UnicodeError:
            raise ConfigurationError(f"{said}: {host!r} is no host name") from None
        return cls(
            scheme,
            host,
            port or _PORTS[scheme],
            quote(parts.path, safe=_PATH_SAFE),
            quote(parts.query, safe=_PATH_SAFE + "?"),
            None if parts.username is None else unquote(parts.username),
            unquote(parts.password or ""),
        )

    @property
    def is_grpc(self) -> bool:
        return self.scheme.startswith("grpc")

    @property
    def tls(self) -> bool:
        return self.scheme.endswith("s")

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if _PORTS.get(self.scheme) == self.port else f"{host}:{self.port}"

    @property
    def target(self) -> str:
        """What the request line says: path and query."""
        return f"{self.path or '/'}?{self.query}" if self.query else self.path or "/"

    @property
    def base(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{self.authority}"

    @property
    def shown(self) -> str:
        """The URL as reports show it, without credentials."""
        (url,) = without_secrets([self.base + (f"{self.path}?{self.query}" if self.query else self.path)])
        return url

    def at(self, path: str, query: str = "") -> "TargetUrl":
        """The same server and user, another path."""
        return self._replace(path=path, query=query)

    def endpoint(self, *, ca_file: str | None = None, insecure: bool = False, grpc: bool = False) -> Endpoint:
        return Endpoint(
            protocol="grpc" if grpc or self.is_grpc else "http",
            host=self.host,
            port=self.port,
            tls=self.tls,
            ca_file=ca_file,
            insecure=insecure,
        )
