"""What the first bytes of an image file say: its format and how large it is, before anything decodes it.

Sources: ISO/IEC 15948 (PNG) 11.2.2; GIF89a 18; RFC 9649 (WebP) 2.5 to 2.7; BITMAPINFOHEADER and BITMAPCOREHEADER.
"""

from struct import unpack_from
from typing import Literal, NamedTuple

ImageFormat = Literal["JPEG", "PNG", "WEBP", "BMP", "GIF"]


class ImageHeader(NamedTuple):
    """Sizes are 0 where the beginning does not tell them: in a JPEG they may come late."""

    format: ImageFormat
    width: int = 0
    height: int = 0


def read_header(data: bytes) -> ImageHeader | None:
    """None for what is no image of these formats, or ends within its header."""
    if data[:3] == b"\xff\xd8\xff":
        return ImageHeader("JPEG")
    if len(data) < 30:
        return None
    if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR":
        return ImageHeader("PNG", *unpack_from(">II", data, 16))
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return ImageHeader("GIF", *unpack_from("<HH", data, 6))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    if data[:2] == b"BM":
        (length,) = unpack_from("<I", data, 14)
        width, height = unpack_from("<HH", data, 18) if length == 12 else unpack_from("<ii", data, 18)
        return ImageHeader("BMP", abs(width), abs(height))
    return None


def _webp(data: bytes) -> ImageHeader | None:
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    elif kind == b"VP8L":
        (bits,) = unpack_from("<I", data, 21)
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif kind == b"VP8 ":
        width, height = (side & 0x3FFF for side in unpack_from("<HH", data, 26))
    else:
        return None
    return ImageHeader("WEBP", width, height)
