"""Frames of HTTP/2: bytes to frames, however they were cut, and back. No socket, no state but what is not yet whole.

Source: RFC 9113, sections 3.4, 4 and 6.
"""

import struct
from collections.abc import Iterable, Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Plain integers: members of an enum cost more to look up than what is done with them.
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = range(1, 6)

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = range(4)
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR = range(6, 10)
ENHANCE_YOUR_CALM, INADEQUATE_SECURITY = 11, 12

SMALLEST_MAX_FRAME = 16_384
LARGEST_MAX_FRAME = (1 << 24) - 1
LARGEST_WINDOW = (1 << 31) - 1
DEFAULT_WINDOW = 65_535

_HEAD = struct.Struct(">HBBBI")
_SETTING = struct.Struct(">HI")
_WORD = struct.Struct(">I")
_HEAD_BYTES = 9

Frame = tuple[int, int, int, bytes]
"""Kind, flags, stream, payload."""


class ProtocolViolation(Exception):
    """The peer did what HTTP/2 forbids, so that nothing else on its connection can be trusted. `code` goes to it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class FrameReader:
    """Frames out of bytes."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes. To be read to the end before the next call.

        Raises: ProtocolViolation, after the frames before it, at one longer than we allow.
        """
        if self._rest:
            data = self._rest + data
        unpack, size = _HEAD.unpack_from, len(data)
        begin = 0
        while size - begin >= _HEAD_BYTES:
            high, low, kind, flags, stream = unpack(data, begin)
            length = high << 8 | low
            if length > SMALLEST_MAX_FRAME:
                raise ProtocolViolation(FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            end = begin + _HEAD_BYTES + length
            if end > size:
                break
            yield kind, flags, stream & LARGEST_WINDOW, data[begin + _HEAD_BYTES : end]
            begin = end
        self._rest = data[begin:]


def frame_head(length: int, kind: int, flags: int) -> bytes:
    """The first five bytes of a frame: what comes before the number of its stream."""
    return _HEAD.pack(length >> 8, length & 0xFF, kind, flags, 0)[:5]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _HEAD.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def settings_frame(settings: Iterable[tuple[int, int]]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join([_SETTING.pack(*setting) for setting in settings]))


def window_update_frame(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _WORD.pack(increment))


def reset_frame(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, _WORD.pack(code))


def goaway_frame(code: int) -> bytes:
    """We never take streams from the peer, so its last one is 0."""
    return frame(GOAWAY, 0, 0, _WORD.pack(0) + _WORD.pack(code))


def header_frames(stream: int, block: bytes) -> bytes:
    """A header block as HEADERS and as many CONTINUATIONs as every peer must take. The stream stays open."""
    pieces = [block[begin : begin + SMALLEST_MAX_FRAME] for begin in range(0, len(block), SMALLEST_MAX_FRAME)]
    last = len(pieces) - 1
    return b"".join(
        [
            frame(CONTINUATION if number else HEADERS, END_HEADERS if number == last else 0, stream, piece)
            for number, piece in enumerate(pieces)
        ]
    )


def content(flags: int, payload: bytes, kind: int) -> bytes:
    """What a DATA or HEADERS frame holds, without padding and priority. Raises: ProtocolViolation."""
    begin, end = 0, len(payload)
    if flags & PADDED:
        if not payload:
            raise ProtocolViolation(FRAME_SIZE_ERROR, "a padded frame without a length of its padding")
        begin, end = 1, end - payload[0]
    if kind == HEADERS and flags & HAS_PRIORITY:
        begin += 5
    if begin > end:
        raise ProtocolViolation(PROTOCOL_ERROR, "more padding than frame")
    return payload[begin:end]


def settings_of(payload: bytes) -> Iterator[tuple[int, int]]:
    """Number and value of each setting. Raises: ProtocolViolation."""
    if len(payload) % _SETTING.size:
        raise ProtocolViolation(FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes")
    return _SETTING.iter_unpack(payload)


def words_of(payload: bytes, count: int, name: str, *, is_longer: bool = False) -> tuple[int, ...]:
    """The first `count` 32-bit numbers of a frame that holds just these, or more. Raises: ProtocolViolation."""
    if len(payload) < 4 * count or (len(payload) > 4 * count and not is_longer):
        raise ProtocolViolation(FRAME_SIZE_ERROR, f"{name} of {len(payload)} bytes")
    return struct.unpack_from(f">{count}I", payload)
