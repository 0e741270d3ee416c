"""Histograms as text. Readers and writers of other people are in tests/conformance/test_hdrhistogram.py."""

import base64
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guepard.measure.hdr_format import decode, encode
from guepard.measure.histogram import BUCKET_COUNT, Histogram, lower_edge, upper_edge

LARGEST = 2**63 - 1
indices = st.integers(0, BUCKET_COUNT - 1)
counts = st.one_of(st.integers(1, 3), st.integers(1, 2**50))


def sparse(buckets: dict[int, int]) -> Histogram:
    return Histogram.from_sparse(np.array([*buckets], np.int64), np.array([*buckets.values()], np.int64))


def text_of(
    words: bytes, *, outer: int = 0x1C849314, inner: int = 0x1C849313, announced: int | None = None, digits: int = 3
) -> str:
    """The format as it is described, written out by hand."""
    head = struct.pack(">IIIIqqd", inner, len(words) if announced is None else announced, 0, digits, 1, 10**12, 1.0)
    packed = zlib.compress(head + words)
    return base64.b64encode(struct.pack(">II", outer, len(packed)) + packed).decode()


@settings(deadline=None)
@given(st.dictionaries(indices, counts, max_size=40))
def test_text_and_back(buckets: dict[int, int]) -> None:
    histogram = sparse(buckets)
    assert decode(encode(histogram)) == histogram


@settings(deadline=None)
@given(st.lists(st.integers(0, LARGEST), min_size=1, max_size=40))
def test_nothing_is_lost_with_the_exact_figures_beside_the_text(values: list[int]) -> None:
    histogram = Histogram.of(np.array(values, np.int64))
    text = encode(histogram)
    assert decode(text, min_value=min(values), max_value=max(values), total=sum(values)) == histogram
    bare = decode(text)
    assert bare.min_value <= min(values) <= bare.min_value * 1.001
    assert max(values) <= bare.max_value <= max(values) * 1.001


def test_words_are_what_the_format_says() -> None:
    """None in 0, 1 in 1, three empty ones, 64 in 5: ZigZag makes 0, 2, 5 and 128 of it, which takes two bytes."""
    payload = zlib.decompress(base64.b64decode(encode(sparse({1: 1, 5: 64})))[8:])
    assert payload[40:] == bytes([0, 2, 5, 0x80, 1])
    assert decode(text_of(payload[40:])) == sparse({1: 1, 5: 64})


def test_the_head_has_room_for_the_largest_value() -> None:
    def highest(histogram: Histogram) -> int:
        payload = zlib.decompress(base64.b64decode(encode(histogram))[8:])
        return int(struct.unpack_from(">q", payload, 24)[0])

    day_ns = 86_400 * 10**9
    assert highest(Histogram()) == highest(sparse({7: 1})) == day_ns
    assert highest(sparse({BUCKET_COUNT - 1: 1})) == LARGEST


def test_a_cookie_without_the_bits_of_a_word_is_read() -> None:
    assert decode(text_of(b"\x02", outer=0x1C849304, inner=0x1C849303)) == sparse({0: 1})


@pytest.mark.parametrize("count", [2**62, 2**63 - 1])
def test_the_largest_counts_take_nine_bytes(count: int) -> None:
    payload = zlib.decompress(base64.b64decode(encode(sparse({0: count})))[8:])
    assert len(payload) == 40 + 9
    assert decode(encode(sparse({0: count}))) == sparse({0: count})


def test_the_edges_of_what_is_read_are_those_of_buckets() -> None:
    histogram = decode(encode(sparse({3_000: 1, 9_000: 1})))
    assert (histogram.min_value, histogram.max_value) == (lower_edge(3_000), upper_edge(9_000))


WHOLE = encode(sparse({5: 1, 9: 2}))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "too few"),
        ("HISTFAAA", "too few"),
        ("not base64!", "not base64"),
        ("ä", "not base64"),
        (WHOLE[:-8], "was the text cut"),
        (text_of(b"", outer=0x1C849301), "begins with 0x1c849301"),
        (text_of(b"", inner=0x1C849301), "content begins with 0x1c849301"),
        (text_of(b"\x02", announced=2), "2 bytes of counts announced, 1 found"),
        (text_of(b"\x02", digits=2), "2 significant digits"),
        (text_of(b"\x80"), "last count is cut"),
        (text_of(b"\xff" * 9), f"fill {BUCKET_COUNT}"),
        (text_of(b"\x02" * (BUCKET_COUNT + 1)), f"fill {BUCKET_COUNT}"),
        (text_of(bytes(10_000_000)), "longer than any histogram"),
        (text_of(b"\xfe" + b"\xff" * 8 + b"\x02"), "counts up to 2\\*\\*63"),
        (base64.b64encode(struct.pack(">II", 0x1C849314, 4) + b"junk").decode(), "does not decompress"),
        (base64.b64encode(struct.pack(">II", 0x1C849314, 0)).decode(), "cut"),
        (
            base64.b64encode(struct.pack(">II", 0x1C849314, 11) + zlib.compress(b"abc")).decode(),
            "shorter than its head",
        ),
    ],
)
def test_what_is_not_a_histogram_says_why(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        decode(text)
