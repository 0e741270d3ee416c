"""Headers that a user gives: `Name: value` lines, checked, and laid over those that a request has by itself."""

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence

from guepard.core.errors import ConfigurationError

Headers = tuple[tuple[str, str], ...]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Of HTTP/1.1's framing and of connections, which the load generator keeps open: not the user's to say.
_OWN = {
    "content-length": "it is counted",
    "transfer-encoding": "bodies are sent whole, with a Content-Length",
    "connection": "connections are kept open and counted",
    "keep-alive": "connections are kept open and counted",
    "upgrade": "only HTTP/1.1 and gRPC are measured",
    "expect": "bodies are sent with their heads",
    "te": "no trailers are read",
    "trailer": "no trailers are sent",
}


def read_header(line: str, field: str = "--header") -> tuple[str, str]:
    """Name and value of one line; an empty value takes the header of that name away.

    Raises: ConfigurationError for what would break the request: no name, control characters, the framing's own names.
    """
    name, colon, value = line.partition(":")
    name, value = name.strip(" \t"), value.strip(" \t")
    shown = repr(line[:80])
    if not colon:
        raise ConfigurationError(f"{field} {shown}: expected 'Name: value'")
    check_header(name, value, f"{field} {shown}")
    return name, value


def check_header(name: str, value: str, said: str) -> None:
    """Raises: ConfigurationError, which begins with `said`."""
    if not _TOKEN.fullmatch(name):
        raise ConfigurationError(f"{said}: {name!r} is no header name")
    if any((character < " " and character != "\t") or character == "\x7f" for character in value):
        raise ConfigurationError(f"{said}: control characters, a line break for instance, would break the request")
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        raise ConfigurationError(f"{said}: headers hold Latin-1; encode other characters") from None
    if name.lower() == "host" and not value:
        raise ConfigurationError(f"{said}: a request must name its host; give it a value or leave it out")
    if name.lower() in _OWN:
        raise ConfigurationError(f"{said}: leave {name} out, {_OWN[name.lower()]}")


def read_headers(lines: Iterable[str], field: str = "--header") -> Headers:
    return tuple(read_header(line, field) for line in lines)


def overlaid(under: Sequence[tuple[str, str]], over: Sequence[tuple[str, str]]) -> Headers:
    """`under` without the names that `over` has, then `over`. Case means nothing.

    One without a value stays, since it takes others away further on; it is not sent.
    """
    named = {name.lower() for name, _ in over}
    return (*[pair for pair in under if pair[0].lower() not in named], *over)


def basic_authorization(user: str, password: str) -> tuple[str, str]:
    """Source: RFC 7617."""
    return "Authorization", "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def grpc_metadata(headers: Headers) -> Headers:
    """Headers as gRPC metadata, whose names are in lower case.

    Raises: ConfigurationError for names that gRPC keeps to itself and for values that it cannot carry.
    """
    for name, value in headers:
        if name.lower().startswith("grpc-") or name.lower() in ("content-type", "host", "user-agent"):
            raise ConfigurationError(f"--header {name!r}: gRPC sets this itself; leave it out")
        if name.lower().endswith("-bin") or not value.isascii():
            raise ConfigurationError(f"--header {name!r}: only ASCII text is sent as gRPC metadata")
    return tuple((name.lower(), value) for name, value in headers if value)
