"""HTTP content codings of bodies: gzip, deflate, br and zstd, as bytes to bytes.

Decoding is bounded while it happens: a Decoder gives one piece after another, so that whoever adds them up can stop at
a limit. What is wrong with a body is an InputError that says so.

br and zstd need the libraries brotli and zstandard (the extra `compression`), which are imported when first used.

Source: RFC 9110 section 8.4.1, RFC 1950 to 1952, RFC 7932, RFC 8878, and RFC 9659 for the window of zstd.
"""

import sys
import zlib
from functools import cache
from importlib.util import find_spec
from typing import Any, Protocol

from guepard.core.errors import InputError
from guepard.protocols.zstd_frames import MAX_WINDOW, ZstdSlices

Buffer = bytes | bytearray | memoryview

PREFERENCE = ("zstd", "br", "gzip", "deflate")
"""All codings, best first: zstd is the fastest and br the smallest on JSON of floats."""

PIECE = 524_288
"""About how much a Decoder gives at once."""

_SLICE = 65_536  # how much of the coded body a library is given at once: it may copy what it leaves over
_MAX_MEMBERS = 10_000  # of one gzip body; each costs the same however little it holds

_LIBRARIES = {"zstd": "zstandard", "br": "brotli"}
_WINDOW_BITS = {"gzip": 31, "deflate": 15}
_GZIP_MAGIC = b"\x1f\x8b"
_RAW_DEFLATE = -15
# The fastest level of each: on JSON of floats the next ones take up to twice the time for a few percent.
_LEVEL = 1


class Decoder(Protocol):
    """One coded body on its way back. `finished` when all of it has been given and nothing was left over."""

    finished: bool

    def read(self) -> bytes:
        """The next piece, of the size asked for or up to a MiB more; it may be empty. Raises: InputError."""
        ...


class Encoder(Protocol):
    """One body on its way to be coded. The results of all calls, in order, are the coded body."""

    def compress(self, data: Buffer) -> bytes: ...

    def finish(self) -> bytes: ...


def available() -> tuple[str, ...]:
    """The codings that this installation reads and writes, best first."""
    return tuple(coding for coding in PREFERENCE if _is_available(coding))


@cache
def _is_available(coding: str) -> bool:
    if coding in _LIBRARIES and find_spec(_LIBRARIES[coding]) is None:
        return False
    # Versions of brotli before 1.2 unfold without a bound.
    return coding != "br" or hasattr(_brotli().Decompressor, "can_accept_more_data")


def is_loaded(coding: str) -> bool:
    """Whether using `coding` imports nothing any more. The first import takes tens of milliseconds."""
    return coding not in _LIBRARIES or _LIBRARIES[coding] in sys.modules


def decoder(coding: str, body: Buffer, piece: int = PIECE) -> Decoder:
    """A decoder of `body`, which is not empty, from one of the `available` codings. Units: `piece` in bytes."""
    view = memoryview(body)
    if coding == "zstd":
        return _ZstdDecoder(view, piece)
    if coding == "br":
        return _BrotliDecoder(view, piece)
    return _ZlibDecoder(coding, view, piece)


def encoder(coding: str) -> Encoder:
    """An encoder to one of the `available` codings, at its fastest level."""
    if coding == "zstd":
        return _FlushedEncoder(_zstandard().ZstdCompressor(level=_LEVEL).compressobj())
    if coding == "br":
        return _BrotliEncoder(_brotli().Compressor(quality=_LEVEL))
    return _FlushedEncoder(zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS[coding]))


def encode(coding: str, body: Buffer) -> bytes:
    """The whole of a small body at once."""
    whole = encoder(coding)
    return whole.compress(body) + whole.finish()


class _ZlibDecoder:
    """gzip, of which several members make one body, and deflate, with the zlib wrapper or bare: both are sent."""

    def __init__(self, coding: str, body: memoryview, piece: int) -> None:
        self.finished = False
        self._piece = piece
        self._coding = coding
        self._body = body
        self._position = 0
        self._tail: Buffer = b""
        self._members = 0
        self._bits = _WINDOW_BITS[coding]
        if coding == "deflate" and not _has_zlib_header(body):
            self._bits = _RAW_DEFLATE
        self._inner = zlib.decompressobj(self._bits)

    def read(self) -> bytes:
        data = self._tail or self._body[self._position : self._position + _SLICE]
        if not self._tail:
            self._position += len(data)
        try:
            piece = self._inner.decompress(data, self._piece)
        except zlib.error as error:
            raise _corrupt(self._coding, error) from None
        self._tail = self._inner.unconsumed_tail
        if self._inner.eof:
            self._end_member()
        elif not piece and not self._tail and self._position >= len(self._body):
            raise _truncated(self._coding)
        return piece

    def _end_member(self) -> None:
        self._position -= len(self._inner.unused_data)
        self._tail = b""
        self._members += 1
        if self._position >= len(self._body):
            self.finished = True
        elif self._coding != "gzip" or bytes(self._body[self._position : self._position + 2]) != _GZIP_MAGIC:
            raise _left_over(self._coding, len(self._body) - self._position)
        elif self._members >= _MAX_MEMBERS:
            raise InputError(f"request body: gzip data of more than {_MAX_MEMBERS} members; send it as one")
        else:
            self._inner = zlib.decompressobj(self._bits)


def _has_zlib_header(body: memoryview) -> bool:
    """Bare deflate data cannot begin so: it would be a stored block whose padding is not zero."""
    if len(body) == 1:
        return body[0] & 0x0F == 8
    return body[0] & 0x0F == 8 and body[0] >> 4 <= 7 and (body[0] << 8 | body[1]) % 31 == 0


class _BrotliDecoder:
    def __init__(self, body: memoryview, piece: int) -> None:
        self.finished = False
        self._piece = piece
        self._body = body
        self._position = 0
        self._error = _brotli().error
        self._inner = _brotli().Decompressor()

    def read(self) -> bytes:
        data: Buffer = b""
        if self._inner.can_accept_more_data():
            data = self._body[self._position : self._position + _SLICE]
            self._position += len(data)
        try:
            piece: bytes = self._inner.process(data, output_buffer_limit=self._piece)
        except self._error:
            raise InputError("request body: not valid br data, or something follows it (Content-Encoding)") from None
        left = len(self._body) - self._position
        if self._inner.is_finished():
            if left:
                raise _left_over("br", left)
            self.finished = True
        elif not piece and not left and self._inner.can_accept_more_data():
            raise _truncated("br")
        return piece


class _ZstdDecoder:
    """The library unfolds all that it is given, so it is given as many blocks as make up one piece."""

    def __init__(self, body: memoryview, piece: int) -> None:
        self.finished = False
        self._piece = piece
        self._slices = ZstdSlices(body)
        self._error = _zstandard().ZstdError
        self._context = _zstandard().ZstdDecompressor(max_window_size=MAX_WINDOW)
        self._inner: Any = None  # of the frame that is being read

    def read(self) -> bytes:
        data = self._slices.next(self._piece)
        if self._inner is None:
            self._inner = self._context.decompressobj()
        try:
            piece: bytes = self._inner.decompress(data) if data else b""
        except self._error as error:
            raise _corrupt("zstd", error) from None
        if self._slices.at_frame_end:
            self._inner = None
        self.finished = self._slices.at_end
        return piece


class _FlushedEncoder:
    def __init__(self, inner: Any) -> None:
        self.compress = inner.compress
        self.finish = inner.flush


class _BrotliEncoder:
    def __init__(self, inner: Any) -> None:
        self.compress = inner.process
        self.finish = inner.finish


def _corrupt(coding: str, error: Exception) -> InputError:
    reason = str(error).rpartition(": ")[2]
    return InputError(f"request body: not valid {coding} data ({reason}); Content-Encoding says that it is")


def _truncated(coding: str) -> InputError:
    return InputError(f"request body: the {coding} data ends too early; send the whole of it")


def _left_over(coding: str, count: int) -> InputError:
    return InputError(f"request body: {count} bytes follow the end of the {coding} data; send nothing after it")


def _brotli() -> Any:
    import brotli

    return brotli


def _zstandard() -> Any:
    import zstandard

    return zstandard
