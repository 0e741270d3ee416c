"""Which answers are coded, and how: what Accept-Encoding asks for, where the content is text or JSON."""

from collections.abc import Iterator

from guepard.protocols import content_coding
from guepard.server.http.endpoint import Body, Pieces
from guepard.server.http.request_head import RequestHead

_VARY = b"vary: accept-encoding\r\n"
_TEXT = (
    b"content-type: application/json",
    b"content-type: text/",
    b"content-type: application/openmetrics-text",
)
_SMALL = 32_768  # coded on the loop, in half a millisecond or less
_PIECE = 131_072


def choose(head: RequestHead, headers: bytes) -> tuple[bytes, str | None]:
    """`headers`, which begin with Content-Type, with what they must say of the choice; and the coding to be used."""
    if not headers.startswith(_TEXT):
        return headers, None
    coding = head.coding
    if coding is None:
        return headers + _VARY, None
    return b"%b%bcontent-encoding: %b\r\n" % (headers, _VARY, coding.encode()), coding


def apply(head: RequestHead, headers: bytes, body: Body, length: int) -> tuple[bytes, Body, int] | None:
    """Headers, body and length of an answer to `head`; None where the body is to be coded beside the loop.

    The length of what a HEAD request would get is not worked out, and is -1.
    """
    chosen, coding = choose(head, headers)
    if coding is None:
        return chosen, body, length
    if head.is_head:
        return chosen, body, -1
    if length > _SMALL or not content_coding.is_loaded(coding):
        return None
    coded = content_coding.encode(coding, b"".join(body))
    return chosen, (coded,), len(coded)


class BodyPieces(Pieces):
    """A body that exists already."""

    def __init__(self, body: Body) -> None:
        self._body = body

    def pieces(self) -> Iterator[bytes | memoryview]:
        for part in self._body:
            view = memoryview(part)
            for start in range(0, len(view), _PIECE):
                yield view[start : start + _PIECE]
