"""How many HTTP/1.1 requests end in the bytes that a connection brings, for who must only count them."""

import re

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_MAX_HEAD_BYTES = 65_536


class RequestCounter:
    """Counts the requests of many connections; heads and bodies may come in any pieces, requests in any number.

    A request without Content-Length has no body. Between two requests a connection costs nothing.
    `head` and `request_bytes` describe the last request whose head was read: a piece that begins with this head and
    is so long, on a connection that is not in `unfinished`, is exactly one request.
    """

    def __init__(self) -> None:
        self.unfinished: dict[int, int | bytes] = {}
        """By connection: how many bytes its body lacks, or what has come of its head."""
        self.head = b""
        self.request_bytes = -1

    def count(self, connection: int, data: bytes) -> int:
        """How many requests `data` ends. Raises: ValueError where no length of a request can be told."""
        rest = self.unfinished.pop(connection, 0)
        ended = 0
        if isinstance(rest, bytes):
            position, data = 0, rest + data
        else:
            position = rest
            if position > len(data):
                self.unfinished[connection] = position - len(data)
                return 0
            ended = position > 0
        while position < len(data):
            end = data.find(_HEAD_END, position)
            if end < 0:
                if len(data) - position > _MAX_HEAD_BYTES:
                    raise ValueError(f"the head of a request is longer than {_MAX_HEAD_BYTES:,} bytes")
                self.unfinished[connection] = data[position:]
                break
            position = self._end(data[position : end + len(_HEAD_END)], position)
            if position > len(data):
                self.unfinished[connection] = position - len(data)
                break
            ended += 1
        return ended

    def forget(self, connection: int) -> None:
        """The connection is gone; another may come under its number."""
        self.unfinished.pop(connection, None)

    def _end(self, head: bytes, position: int) -> int:
        """Where the request ends whose head begins at `position`."""
        if head != self.head:
            if _CHUNKED.search(head):
                raise ValueError("the request has Transfer-Encoding: send it with Content-Length")
            length = _LENGTH.search(head)
            self.head = head
            self.request_bytes = len(head) + (int(length[1]) if length else 0)
        return position + self.request_bytes
