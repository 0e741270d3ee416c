"""Which bodies a route reads, by Content-Type."""

from guepard.core.errors import UnsupportedMediaType
from guepard.server.http.request_head import RequestHead

JSON_TYPES = frozenset({"application/json", "application/octet-stream"})
# What `curl -d` and forms in old clients say of the JSON they send.
INFER_TYPES = JSON_TYPES | {"application/x-www-form-urlencoded"}

_CHARSETS = ("utf-8", "utf8", "us-ascii")


def check_media_type(head: RequestHead, allowed: frozenset[str]) -> None:
    """Accept a missing type and those in `allowed`. Raises: UnsupportedMediaType that names what came."""
    if head.headers.get(b"content-type") == b"application/json":
        return  # what nearly everybody sends
    value = head.text(b"content-type")
    if not value:
        return
    media_type, *parameters = [part.strip() for part in value.lower().split(";")]
    if media_type not in allowed:
        raise UnsupportedMediaType(f"Content-Type: {media_type[:64]!r} is not read here; send application/json")
    for parameter in parameters:
        key, _, charset = parameter.partition("=")
        if key.strip() == "charset" and charset.strip('" ') not in _CHARSETS:
            raise UnsupportedMediaType(f"Content-Type: charset {charset[:32]!r} is not read; send UTF-8")
