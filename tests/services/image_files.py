"""Image files for tests, and what a viewer shows of them."""

from io import BytesIO
from struct import pack
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]


def encoded(pixels: Pixels | Image.Image, kind: str, **options: Any) -> bytes:
    """`pixels` as a file. JPEGs are of the best quality, so that what they lose is little."""
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    if kind == "JPEG":
        options = {"quality": 95, "subsampling": 0} | options
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def gradient(height: int, width: int) -> Pixels:
    """Smooth, different in every corner and channel."""
    down, across = np.mgrid[0:height, 0:width].astype(np.float64)
    red, green = 255 * down / max(1, height - 1), 255 * across / max(1, width - 1)
    return np.stack([red, green, 255 - red], -1).round().astype(np.uint8)


def png(width: int, height: int, bit_depth: int, colour_type: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG by its parts, of which the header is written here."""
    header = pack(">IIBBBBB", width, height, bit_depth, colour_type, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n"
    for name, data in ((b"IHDR", header), *chunks, (b"IEND", b"")):
        file += pack(">I", len(data)) + name + data + pack(">I", crc32(name + data))
    return file


def exif_block(orientation: int, order: str = ">", *, kind: int = 3, count: int = 1) -> bytes:
    """An APP1 segment with an orientation."""
    mark = b"MM\0*" if order == ">" else b"II*\0"
    entry = pack(f"{order}HHI", 0x0112, kind, count) + pack(f"{order}HH", orientation, 0)
    body = b"Exif\0\0" + mark + pack(f"{order}IH", 8, 1) + entry + pack(f"{order}I", 0)
    return b"\xff\xe1" + pack(">H", len(body) + 2) + body


def with_exif(jpeg: bytes, block: bytes) -> bytes:
    """`jpeg` with `block` as its first segment."""
    return jpeg[:2] + block + jpeg[2:]
