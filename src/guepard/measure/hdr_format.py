"""Histograms as text that other tools read: HdrHistogram's V2 format, compressed, in base64.

    base64 of   cookie 0x1c849314 | length | zlib of ┐
                                                     └ cookie 0x1c849313 | length of the counts | 0 | digits
                                                       | lowest | highest discernible value | ratio 1.0 | counts

All numbers of the two heads are big-endian. The counts run from bucket 0 to the last one that holds something; each is
ZigZag LEB128 in at most nine bytes, of which the ninth holds eight bits, and a negative number -n stands for n empty
buckets. The smallest value, the largest and the sum are not part of the format. Who has them elsewhere gives them to
`decode`; otherwise it takes them from the buckets, as other readers of the format do.

Source: HdrHistogram's encoding V2 as org.HdrHistogram.AbstractHistogram and ZigZagEncoding document it.
"""

import base64
import binascii
import struct
import zlib

import numpy as np

from guepard.measure.histogram import BUCKET_COUNT, SIGNIFICANT_DIGITS, Histogram, upper_edge

_OUTER = struct.Struct(">II")
_INNER = struct.Struct(">IIIIqqd")
_COMPRESSED_COOKIE = 0x1C849314
_COUNTS_COOKIE = 0x1C849313
# Bits 4 to 7 once held the size of a count. V2 has the lowest of them set, and its readers leave them out.
_WORD_BITS = 0xF0

_LOWEST = 1
# What the head names as the highest value lets a reader reserve memory. A day is beyond any request's, and below the
# 2**53 above which readers in JavaScript cannot count.
_DAY_NS = 86_400_000_000_000

_MAX_WORD_BYTES = 9
_MAX_COUNTS_BYTES = BUCKET_COUNT * _MAX_WORD_BYTES


def encode(histogram: Histogram) -> str:
    """Cost: about 1 µs per bucket that holds something."""
    indices, counts = histogram.sparse()
    words = bytearray()
    expected = 0
    for index, count in zip(indices.tolist(), counts.tolist(), strict=True):
        if index > expected:
            # A lone empty bucket is written as its count, as HdrHistogram does: both are one byte.
            empty = index - expected
            _put(words, -empty if empty > 1 else 0)
        _put(words, count)
        expected = index + 1
    highest = max(_DAY_NS, upper_edge(int(indices[-1]))) if indices.size else _DAY_NS
    head = _INNER.pack(_COUNTS_COOKIE, len(words), 0, SIGNIFICANT_DIGITS, _LOWEST, highest, 1.0)
    packed = zlib.compress(head + words)
    return base64.b64encode(_OUTER.pack(_COMPRESSED_COOKIE, len(packed)) + packed).decode("ascii")


def decode(
    text: str, *, min_value: int | None = None, max_value: int | None = None, total: int | None = None
) -> Histogram:
    """The histogram, with its smallest value, largest value and sum as given; if not given, as far as buckets tell.

    Raises: ValueError for text that is not in the format, is torn, holds more than a histogram can, or has another
        resolution than ours (three digits, lowest discernible value 1, ratio 1, no offset).
    """
    words = _counts_of(text)
    indices, counts = [], []
    index = at = 0
    while at < len(words):
        word, at = _get(words, at)
        if word < 0:
            index -= word
        else:
            if word:
                indices.append(index)
                counts.append(word)
            index += 1
    if index > BUCKET_COUNT:
        raise ValueError(f"histogram: {index} buckets, but values below 2**63 fill {BUCKET_COUNT}")
    return Histogram.from_sparse(
        np.array(indices, np.int64),
        np.array(counts, np.int64),
        min_value=min_value,
        max_value=max_value,
        total=total,
    )


def _counts_of(text: str) -> bytes:
    """The words of the counts, after both heads were judged."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"histogram: not base64 ({error})") from None
    if len(data) < _OUTER.size:
        raise ValueError(f"histogram: {len(data)} bytes are too few; was the text cut?")
    cookie, length = _OUTER.unpack_from(data)
    if cookie | _WORD_BITS != _COMPRESSED_COOKIE | _WORD_BITS:
        raise ValueError(
            f"histogram: begins with {cookie:#x}; HdrHistogram's V2, compressed, with {_COMPRESSED_COOKIE:#x}"
        )
    packed = data[_OUTER.size :]
    if len(packed) != length:
        raise ValueError(f"histogram: {length} compressed bytes announced, {len(packed)} found; was the text cut?")
    unpacker = zlib.decompressobj()
    try:
        payload = unpacker.decompress(packed, _INNER.size + _MAX_COUNTS_BYTES)
    except zlib.error as error:
        raise ValueError(f"histogram: its content does not decompress ({error})") from None
    if not unpacker.eof:
        raise ValueError("histogram: its content is cut, or longer than any histogram")
    if len(payload) < _INNER.size:
        raise ValueError(f"histogram: a content of {len(payload)} bytes is shorter than its head")
    cookie, length, offset, digits, lowest, _, ratio = _INNER.unpack_from(payload)
    if cookie | _WORD_BITS != _COUNTS_COOKIE | _WORD_BITS:
        raise ValueError(f"histogram: its content begins with {cookie:#x}; HdrHistogram's V2 with {_COUNTS_COOKIE:#x}")
    if (offset, digits, lowest, ratio) != (0, SIGNIFICANT_DIGITS, _LOWEST, 1.0):
        raise ValueError(
            f"histogram: {digits} significant digits from {lowest} on, offset {offset}, ratio {ratio}; only "
            f"{SIGNIFICANT_DIGITS} digits from {_LOWEST} on, offset 0, ratio 1.0 are read"
        )
    words = payload[_INNER.size :]
    if len(words) != length:
        raise ValueError(f"histogram: {length} bytes of counts announced, {len(words)} found")
    return words


def _put(words: bytearray, number: int) -> None:
    """Append one number of 64 bits."""
    rest = ((number << 1) ^ (number >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    for _ in range(_MAX_WORD_BYTES - 1):
        if rest < 0x80:
            words.append(rest)
            return
        words.append(rest & 0x7F | 0x80)
        rest >>= 7
    words.append(rest)


def _get(words: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where the next one does."""
    rest = 0
    for place in range(_MAX_WORD_BYTES):
        if at == len(words):
            raise ValueError("histogram: its last count is cut")
        byte = words[at]
        at += 1
        if place == _MAX_WORD_BYTES - 1:
            rest |= byte << (7 * place)
            break
        rest |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    return (rest >> 1) ^ -(rest & 1), at
