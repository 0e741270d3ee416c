"""Bytes of response heads. What repeats is made once; what is left is one join per response."""

from email.utils import formatdate
from math import ceil
from time import time

from guepard.core.errors import GuepardError, MethodNotAllowed, UnsupportedMediaType
from guepard.protocols.error_body import REASONS

JSON_TYPE = b"content-type: application/json\r\n"
CLOSE = b"connection: close\r\n"
KEEP_ALIVE = b"connection: keep-alive\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

STATUS_LINES = {code: f"HTTP/1.1 {code} {reason}\r\n".encode() for code, reason in REASONS.items()}

# Up to here one write of joined bytes is cheaper than a gathered write of several buffers.
JOIN_LIMIT = 65_536


_KEPT_LENGTHS = 8_192


class _LengthLines(dict[int, bytes]):
    """What ends the head of an answer of so many bytes. Those of small answers are kept."""

    def __missing__(self, length: int) -> bytes:
        line = b"content-length: %d\r\n\r\n" % length
        if length < _KEPT_LENGTHS:
            self[length] = line
        return line


LENGTH_LINES = _LengthLines()


class DateHeader:
    """The Date line, renewed by `tick` once a second instead of once a response."""

    __slots__ = ("line",)

    def __init__(self) -> None:
        self.tick()

    def tick(self) -> None:
        self.line = f"date: {formatdate(time(), usegmt=True)}\r\n".encode()


def error_headers(error: GuepardError) -> bytes:
    """Content-Type, and Retry-After, Allow or Accept-Encoding where the error has them.

    Retry-After counts whole seconds, rounded up.
    """
    headers = JSON_TYPE
    if error.retry_after_ms is not None:
        headers += b"retry-after: %d\r\n" % max(1, ceil(error.retry_after_ms / 1_000))
    if isinstance(error, MethodNotAllowed):
        headers += b"allow: %b\r\n" % error.allow.encode()
    elif isinstance(error, UnsupportedMediaType) and error.accept_encoding is not None:
        headers += b"accept-encoding: %b\r\n" % error.accept_encoding.encode()
    return headers
