"""Where the frames and blocks of a zstd body lie, by their headers alone.

The decoder of the library has no bound on what one call gives, and does not tell a body that ends early from a whole
one. A block gives at most 128 KiB, and its header says where the next one begins: cut at blocks, output is bounded, and
the end is known.

    frame     magic 4 | descriptor 1 | window 0-1 | dictionary 0-4 | content size 0-8 | blocks | checksum 0 or 4
    block     header 3: last 1 bit, type 2 bits, size 21 bits, least significant first | content
    skippable magic 4 | size 4 | content

Source: RFC 8878 sections 3.1.1 and 3.1.2; RFC 9659 for the largest window of the content coding.
"""

from guepard.core.errors import InputError

MAX_WINDOW = 8 * 1_048_576

_MAGIC = 0xFD2FB528
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_BLOCK_BYTES = 131_072
_RLE, _COMPRESSED, _RESERVED = 1, 2, 3
_MAX_BLOCKS = 1_024  # of one slice: blocks may be empty
_MAX_FRAMES = 10_000
_DICTIONARY_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)


class ZstdSlices:
    """`body` slice by slice. A slice never reaches beyond its frame. Raises: InputError."""

    __slots__ = ("_body", "_checksum", "_frames", "_position", "at_frame_end")

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._position = 0
        self._checksum = 0
        self._frames = 0
        self.at_frame_end = True

    @property
    def at_end(self) -> bool:
        return self.at_frame_end and self._position >= len(self._body)

    def next(self, size: int) -> memoryview:
        """The next slice, which unfolds to at most about `size` bytes; empty for a frame to be skipped."""
        start = self._position
        if self.at_frame_end and self._skips():
            return self._body[:0]
        if self.at_frame_end:
            self._enter_frame()
        for _ in range(_MAX_BLOCKS):
            size -= self._pass_block()
            if self.at_frame_end or size < _BLOCK_BYTES:
                break
        return self._body[start : self._position]

    def _skips(self) -> bool:
        """Whether a frame of no content begins here; then it has been passed."""
        self._frames += 1
        if self._frames > _MAX_FRAMES:
            raise InputError(f"request body: zstd data of more than {_MAX_FRAMES} frames; send it as one")
        if self._number(0, 4) not in _SKIPPABLE:
            return False
        self._advance(8 + self._number(4, 4))
        return True

    def _enter_frame(self) -> None:
        if self._number(0, 4) != _MAGIC:
            where = "zstd data" if self._frames == 1 else "the end of the zstd data"
            raise InputError(f"request body: no zstd frame begins at {where}; Content-Encoding says that one does")
        descriptor = self._number(4, 1)
        single = descriptor >> 5 & 1
        size = _CONTENT_SIZE_BYTES[descriptor >> 6] or single
        window = 0 if single else 1
        dictionary = _DICTIONARY_BYTES[descriptor & 3]
        self._checksum = 4 if descriptor >> 2 & 1 else 0
        if single:
            content = self._number(5 + dictionary, size) + (256 if size == 2 else 0)
            self._check_window(content)
        else:
            exponent, mantissa = divmod(self._number(5, 1), 8)
            self._check_window((1 << 10 + exponent) * (8 + mantissa) // 8)
        self._advance(5 + window + dictionary + size)
        self.at_frame_end = False

    def _pass_block(self) -> int:
        """The most that the block gives."""
        header = self._number(0, 3)
        kind, size = header >> 1 & 3, header >> 3
        if kind == _RESERVED or size > _BLOCK_BYTES:
            raise InputError("request body: not valid zstd data (a block of no known kind or size)")
        self._advance(3 + (1 if kind == _RLE else size))
        if header & 1:
            self._advance(self._checksum)
            self.at_frame_end = True
        return _BLOCK_BYTES if kind == _COMPRESSED else size

    def _check_window(self, size: int) -> None:
        if size > MAX_WINDOW:
            raise InputError(
                f"request body: zstd data with a window of {size} bytes; the content coding allows {MAX_WINDOW}"
            )

    def _number(self, offset: int, size: int) -> int:
        start = self._position + offset
        if start + size > len(self._body):
            raise _truncated()
        return int.from_bytes(self._body[start : start + size], "little")

    def _advance(self, count: int) -> None:
        if self._position + count > len(self._body):
            raise _truncated()
        self._position += count


def _truncated() -> InputError:
    return InputError("request body: the zstd data ends too early; send the whole of it")
