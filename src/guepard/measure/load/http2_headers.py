"""Header blocks of gRPC: requests are written without state, answers are read with as little of it as they allow.

Most answers begin and end with blocks that came before. What a block means is remembered as long as the table that it
may refer to stays the same. Blocks that change the table, and Huffman codes, are read by the library `hpack`.

Source: RFC 7541; gRPC's PROTOCOL-HTTP2.md for the names.
"""

from collections.abc import Iterable
from typing import NamedTuple

import hpack
from hpack.huffman_table import decode_huffman

from guepard.measure.load.http2_frames import COMPRESSION_ERROR, ProtocolViolation

_STATIC_FIELDS = {(b":method", b"POST"): 3, (b":scheme", b"http"): 6, (b":scheme", b"https"): 7}
_STATIC_NAMES = {b":authority": 1, b":path": 4, b"content-type": 31, b"user-agent": 58}
_MOST_KNOWN = 256
_LONGEST_KNOWN_BYTES = 1_024
_UNKNOWN_STATUS = 2
_TIMING_FIELD = b"\0\x0dserver-timing"

Field = tuple[bytes, bytes]


class ReplyHead(NamedTuple):
    """What is of interest in a header block of an answer. status: 0 if there is none, or none that is a number."""

    status: int
    grpc_status: int | None
    timing: bytes


def header_block(fields: Iterable[Field]) -> bytes:
    """`fields` such that the peer's table neither matters nor changes: one block serves any connection at any time."""
    return b"".join([_field(name, value) for name, value in fields])


def _field(name: bytes, value: bytes) -> bytes:
    index = _STATIC_FIELDS.get((name, value))
    if index:
        return _integer(index, 7, 0x80)
    index = _STATIC_NAMES.get(name)
    begin = _integer(index, 4, 0) if index else b"\0" + _text(name)
    return begin + _text(value)


def _text(value: bytes) -> bytes:
    return _integer(len(value), 7, 0) + value


def _integer(value: int, bits: int, first: int) -> bytes:
    """Source: RFC 7541, section 5.1."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes((first | value,))
    parts = [first | limit]
    value -= limit
    while value >= 128:
        parts.append(value % 128 | 128)
        value //= 128
    parts.append(value)
    return bytes(parts)


class HeaderReader:
    """Reads the blocks of one connection, in the order in which they came."""

    __slots__ = ("_decoder", "_known", "_table")

    def __init__(self) -> None:
        self._decoder = hpack.Decoder()
        self._table = self._decoder.header_table
        self._known: dict[bytes, ReplyHead] = {}

    def read(self, block: bytes) -> ReplyHead:
        """Raises: ProtocolViolation; the connection's later blocks mean nothing then."""
        known = self._known.get(block)
        if known is not None:
            return known
        try:
            return self._read_timed(block) or self._read_new(block)
        except (hpack.HPACKError, IndexError) as error:
            raise ProtocolViolation(COMPRESSION_ERROR, f"headers that cannot be read: {error}") from None

    def _read_timed(self, block: bytes) -> ReplyHead | None:
        """What is known of the block but for its end, a Server-Timing, which is another each time."""
        at = block.find(_TIMING_FIELD)
        known = self._known.get(block[:at]) if at > 0 else None
        if known is None:
            return None
        timing, end = _read_text(block, at + len(_TIMING_FIELD))
        return ReplyHead(known.status, known.grpc_status, timing) if end == len(block) else None

    def _read_new(self, block: bytes) -> ReplyHead:
        fields: list[Field] = []
        last = self._read_stateless(block, fields)
        if last is None:
            self._known.clear()
            return _head_of(self._decoder.decode(block, raw=True))
        head = _head_of(fields)
        if len(block) <= _LONGEST_KNOWN_BYTES:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            if not head.timing:
                self._known[block] = head
            elif block.startswith(_TIMING_FIELD, last):
                self._known[block[:last]] = _head_of(fields[:-1])
        return head

    def _read_stateless(self, block: bytes, fields: list[Field]) -> int | None:
        """Where the last field began; None if the block changes the table, and then nothing has happened.

        Raises: IndexError, hpack.HPACKError.
        """
        entry = self._table.get_by_index
        at = begin = 0
        while at < len(block):
            begin, first = at, block[at]
            if first & 0x80:
                index, at = _read_integer(block, at, 0x7F)
                fields.append(entry(index))
            elif first & 0x60:
                return None
            else:
                index, at = _read_integer(block, at, 0x0F)
                if index:
                    name = entry(index)[0]
                else:
                    name, at = _read_text(block, at)
                value, at = _read_text(block, at)
                fields.append((name, value))
        return begin


def _read_integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """The number whose first bits are at `at`, and where the next thing begins. Raises: IndexError."""
    value = block[at] & mask
    at += 1
    if value < mask:
        return value, at
    for shift in range(0, 35, 7):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 128:
            return value, at
    raise IndexError("a number without end")


def _read_text(block: bytes, at: int) -> tuple[bytes, int]:
    is_huffman = block[at] & 0x80
    length, at = _read_integer(block, at, 0x7F)
    end = at + length
    if end > len(block):
        raise IndexError("a string beyond the end")
    text = block[at:end]
    return decode_huffman(text) if is_huffman else text, end


def _head_of(fields: Iterable[Field]) -> ReplyHead:
    status, grpc_status, timing = 0, None, b""
    for name, value in fields:
        if name == b":status":
            status = int(value) if len(value) == 3 and value.isdigit() else 0
        elif name == b"grpc-status":
            grpc_status = int(value) if len(value) <= 2 and value.isdigit() else _UNKNOWN_STATUS
        elif name == b"server-timing":
            timing = value
    return ReplyHead(status, grpc_status, timing)
