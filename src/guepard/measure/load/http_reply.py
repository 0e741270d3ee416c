"""One HTTP/1.1 answer that does not come whole in one read, or is not of the simplest form. httptools reads it."""

from collections.abc import Callable

import httptools

_NO_BODY = frozenset((204, 304))

OnBody = Callable[[bytes], None]


class HttpReply:
    """Fed with bytes until `is_complete`; `ended` says whether the end of the connection completes it.

    Raises (feed): httptools.HttpParserError.
    """

    def __init__(self, on_body: OnBody, *, is_head: bool) -> None:
        self._on_body = on_body
        self._is_head = is_head
        self.status = 0
        self.is_complete = False
        self.keeps_connection = False
        self.server_timing = b""
        self._has_head = False
        self._has_framing = False
        self._closes = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Another protocol begins, and none was asked for: with its status this is no success.
            self.status = self._parser.get_status_code()
            self.is_complete = True
            self.keeps_connection = False

    def ended(self) -> bool:
        """Is the answer complete, now that the connection has ended? One without a length ends so."""
        return self.is_complete or (self._has_head and not self._has_framing)

    def on_message_begin(self) -> None:
        if self.is_complete:
            # Nobody asked for a second answer: what follows on this connection could not be told apart.
            self.keeps_connection = False

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self._has_framing = True
        elif name == b"connection":
            self._closes = b"close" in value.lower()
        elif name == b"server-timing":
            self.server_timing = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self.is_complete:
            return
        if status < 200:
            self._has_framing = False
            return
        self.status = status
        self._has_head = True
        self.keeps_connection = self._parser.should_keep_alive()
        if self._is_head and not self._has_framing:
            # The parser expects a body until the connection ends, and takes that for the end of keeping it.
            self.keeps_connection = not self._closes and self._parser.get_http_version() == "1.1"
        if self._is_head or status in _NO_BODY:
            self.is_complete = True

    def on_body(self, body: bytes) -> None:
        if not self.is_complete:
            self._on_body(body)

    def on_message_complete(self) -> None:
        if self._has_head:
            self.is_complete = True
