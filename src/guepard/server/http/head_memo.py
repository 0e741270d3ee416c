"""Heads that were parsed before, by their exact bytes.

Clients send the same few heads again and again: what differs from request to request is the body, and at most the
length of it. Equal bytes at the start of a message parse equally, so a known head costs one look-up instead of a parse
(ADR 0002). All connections share the memo.
"""

from guepard.core.memo import Memo
from guepard.server.http.request_head import RequestHead

HEAD_END = b"\r\n\r\n"

_MAX_HEADS = 1_024
_MAX_BYTES = 2_048


class HeadMemo(Memo[bytes, RequestHead]):
    """Its size in memory stays below about 4 MiB."""

    def __init__(self) -> None:
        super().__init__(_MAX_HEADS)

    def remember(self, data: bytes, head: RequestHead) -> None:
        """Keep the head that `data` begins with, as `head`, if later messages may be recognised by it.

        Left out are messages whose end their head does not tell, and heads that ask for something before the body.
        """
        end = data.find(HEAD_END) + len(HEAD_END)
        if head.is_chunked or head.expects_continue or head.upgrades or end > _MAX_BYTES:
            return
        if data[0] <= 0x20:  # empty lines before the request line: the first of them is not the head's end
            return
        self.keep(data[:end], head)
