"""Coded bodies, made and undone by the public libraries."""

import gzip
import zlib
from collections.abc import Callable

import brotli
import zstandard

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda body: brotli.compress(body, quality=1),
    "zstd": zstandard.ZstdCompressor().compress,
}
DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "br": brotli.decompress,
    "zstd": lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body),
}
CODINGS = tuple(COMPRESS)


def bare_deflate(body: bytes) -> bytes:
    """What some senders take `deflate` for: no zlib header around it."""
    one = zlib.compressobj(6, zlib.DEFLATED, -15)
    return one.compress(body) + one.flush()
