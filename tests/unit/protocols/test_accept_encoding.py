"""What clients say in Accept-Encoding, and what they get."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.protocols.accept_encoding import CODED_FROM, Negotiated, negotiate
from guepard.protocols.content_coding import PREFERENCE


@pytest.mark.parametrize(
    ("value", "coding"),
    [
        (None, None),
        (b"", None),
        (b"identity", None),
        (b"gzip", "gzip"),
        (b"GZip", "gzip"),
        (b"x-gzip", "gzip"),
        (b"deflate", "deflate"),
        (b"compress", None),
        (b"gzip, deflate", "gzip"),
        (b"deflate, gzip", "gzip"),
        (b"gzip, deflate, br", "br"),
        (b"gzip, deflate, br, zstd", "zstd"),
        (b"gzip;q=1.0, br;q=0.9", "gzip"),
        (b"gzip;q=0.5, deflate;q=0.7", "deflate"),
        (b"gzip ; q=0.5 ,\tbr ; q=0.4", "gzip"),
        (b"gzip;Q=0.5", "gzip"),
        (b"gzip;q=0", None),
        (b"gzip;q=0.000", None),
        (b"zstd;q=0, br;q=0, gzip", "gzip"),
        (b"*", "zstd"),
        (b"*;q=0", None),
        (b"zstd;q=0, *", "br"),
        (b"gzip;q=0.2, *;q=0.1", "gzip"),
        (b"identity, gzip", "gzip"),
        (b"identity;q=1, gzip;q=0.5", None),
        (b"identity;q=0.5, gzip", "gzip"),
        (b"identity;q=0.5, gzip;q=0.5", "gzip"),
        # Malformed elements are not there; those around them are.
        (b"gzip;q=2", None),
        (b"gzip;q=-1", None),
        (b"gzip;q=0.1234", None),
        (b"gzip;q=", None),
        (b"gzip;q", None),
        (b"gzip;q=nan", None),
        (b"gzip;level=1", None),
        (b"gzip;q=2, deflate", "deflate"),
        (b",,gzip,", "gzip"),
        (b"gzip deflate", None),
        (b'"gzip"', None),
        (b"\xff\xfe, gzip", "gzip"),
        (b"x, " * 400 + b"gzip", None),
    ],
)
def test_the_coding_of_answers(value: bytes | None, coding: str | None) -> None:
    assert negotiate(value) == Negotiated(coding, CODED_FROM)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"gzip, identity;q=0", Negotiated("gzip", 1)),
        (b"gzip, *;q=0", Negotiated("gzip", 1)),
        (b"gzip;q=0.1, *;q=0", Negotiated("gzip", 1)),
        (b"gzip, identity;q=0.0, *;q=0", Negotiated("gzip", 1)),
        (b"identity;q=0", Negotiated(None, CODED_FROM)),  # nothing is left; the answer is sent as it is
        (b"gzip, *;q=0, identity;q=0.1", Negotiated("gzip", CODED_FROM)),
    ],
)
def test_who_excludes_identity_gets_small_answers_coded_too(value: bytes, expected: Negotiated) -> None:
    assert negotiate(value) == expected


@given(st.binary(max_size=200))
def test_any_value_has_a_meaning(value: bytes) -> None:
    assert negotiate(value).coding in (None, *PREFERENCE)
