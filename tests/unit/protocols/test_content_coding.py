"""Content codings as bytes to bytes: round trips, and what is wrong with a body."""

import gzip
import io
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from guepard.core.errors import InputError
from guepard.protocols import accept_encoding, content_coding
from guepard.protocols.content_coding import PIECE, PREFERENCE

MIB = 2**20

Compress = Callable[[bytes], bytes]


def raw_deflate(data: bytes) -> bytes:
    one = zlib.compressobj(9, zlib.DEFLATED, -15)
    return one.compress(data) + one.flush()


def zstd_frame(**options: object) -> Compress:
    return lambda data: zstandard.ZstdCompressor(**options).compress(data)  # type: ignore[arg-type]


def streamed_zstd(data: bytes) -> bytes:
    """As from a pipe: no content size in the frame, a flush between the parts."""
    one = zstandard.ZstdCompressor().compressobj()
    parts = [one.compress(data[: len(data) // 2]), one.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
    return b"".join([*parts, one.compress(data[len(data) // 2 :]), one.flush()])


COMPRESSORS: dict[str, tuple[str, Compress]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip of two members": ("gzip", lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:])),
    "zlib": ("deflate", zlib.compress),
    "bare deflate": ("deflate", raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstd_frame()),
    "zstd with a checksum": ("zstd", zstd_frame(write_checksum=True)),
    "zstd without a content size": ("zstd", streamed_zstd),
    "zstd of two frames": ("zstd", lambda data: zstd_frame()(data[:7]) + streamed_zstd(data[7:])),
    "zstd with a frame to skip": ("zstd", lambda data: b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstd_frame()(data)),
}


def unfold(coding: str, body: bytes, limit: int = 16 * MIB) -> bytes:
    """All of `body`, or the first piece that passes `limit`. No piece is much larger than it may be."""
    decoder = content_coding.decoder(coding, body)
    whole = b""
    while not decoder.finished and len(whole) <= limit:
        piece = decoder.read()
        assert len(piece) <= PIECE + MIB
        whole += piece
    return whole


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Takes a library away: importing it fails, as where it was never installed."""

    def forget() -> None:
        content_coding._is_available.cache_clear()
        accept_encoding.negotiate.cache_clear()

    def take_away(library: str) -> None:
        monkeypatch.setitem(sys.modules, library, None)
        forget()

    yield take_away
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("data", [b"", b"a", b"Guepard" * 1_000, bytes(3 * MIB), bytes(range(256)) * 8_192])
def test_bodies_of_other_encoders_are_read(name: str, data: bytes) -> None:
    coding, compress = COMPRESSORS[name]
    assert unfold(coding, compress(data)) == data


@given(
    coding=st.sampled_from(PREFERENCE), pieces=st.lists(st.binary(max_size=3_000), max_size=5), times=st.integers(1, 60)
)
def test_what_is_written_in_pieces_is_read_again(coding: str, pieces: list[bytes], times: int) -> None:
    encoder = content_coding.encoder(coding)
    coded = b"".join([encoder.compress(memoryview(piece)) for piece in pieces * times] + [encoder.finish()])
    assert unfold(coding, coded) == b"".join(pieces) * times
    assert unfold(coding, content_coding.encode(coding, b"".join(pieces))) == b"".join(pieces)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_body_cut_anywhere_is_an_error(name: str) -> None:
    coding, compress = COMPRESSORS[name]
    data = b'{"inputs":[]}' * 3
    whole = compress(data)
    # Where one member or frame ends the body may end too: what came is whole.
    whole_parts = {
        "gzip of two members": len(gzip.compress(data[:7])),
        "zstd of two frames": len(zstd_frame()(data[:7])),
        "zstd with a frame to skip": 11,
    }
    for end in set(range(1, len(whole))) - {whole_parts.get(name)}:
        with pytest.raises(InputError, match=r"ends too early|not valid|follow"):
            unfold(coding, whole[:end])


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("tail", [b"x", b"\0\0\0\0", b"garbage", b"{}" * 500])
def test_what_follows_the_end_is_an_error(name: str, tail: bytes) -> None:
    coding, compress = COMPRESSORS[name]
    with pytest.raises(InputError, match=r"follow|ends too early|no zstd frame"):
        unfold(coding, compress(b"data" * 100) + tail)


@pytest.mark.parametrize("coding", PREFERENCE)
@pytest.mark.parametrize(
    "garbage", [b"\0", b"{", b"\xff" * 100, b'{"inputs":[]}', bytes(100_000), b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]
)
def test_garbage_is_an_error(coding: str, garbage: bytes) -> None:
    with pytest.raises(InputError, match="request body: "):
        unfold(coding, garbage)


@given(coding=st.sampled_from(PREFERENCE), garbage=st.binary(min_size=1, max_size=400))
def test_no_garbage_has_another_end(coding: str, garbage: bytes) -> None:
    with suppress(InputError):
        unfold(coding, garbage)


@pytest.mark.parametrize("name", ["gzip", "zlib", "zstd with a checksum"])
def test_a_wrong_checksum_is_an_error(name: str) -> None:
    coding, compress = COMPRESSORS[name]
    body = bytearray(compress(b"data" * 100))
    body[-5 if coding == "gzip" else -1] ^= 1
    with pytest.raises(InputError, match=r"not valid .* data \("):
        unfold(coding, bytes(body))


@pytest.mark.parametrize("coding", PREFERENCE)
def test_a_bomb_is_stopped_while_it_unfolds(coding: str) -> None:
    """headroomlabs-ai/headroom PR#3325. `unfold` bounds each piece; what comes beyond the limit is one of them."""
    bomb = content_coding.encode(coding, bytes(64 * MIB))
    assert len(bomb) < 300_000
    assert len(unfold(coding, bomb, limit=8 * MIB)) <= 8 * MIB + PIECE + MIB


def test_members_that_hold_nothing_come_to_an_end() -> None:
    with pytest.raises(InputError, match="more than 10000 members"):
        unfold("gzip", gzip.compress(b"") * 10_001)
    with pytest.raises(InputError, match="more than 10000 frames"):
        unfold("zstd", b"\x50\x2a\x4d\x18\0\0\0\0" * 10_001)


def test_a_window_of_zstd_beyond_the_codings_is_refused() -> None:
    """RFC 9659: at most 8 MiB. A frame that claims more costs no memory."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    stream = io.BytesIO()
    with zstandard.ZstdCompressor(compression_params=parameters).stream_writer(stream, closefd=False) as writer:
        writer.write(b"data" * 100)
    with pytest.raises(InputError, match="a window of 134217728 bytes; the content coding allows 8388608"):
        unfold("zstd", stream.getvalue())
    claim = b"\x28\xb5\x2f\xfd\xe0" + (2**40).to_bytes(8, "little") + b"\x01\0\0"
    with pytest.raises(InputError, match=f"a window of {2**40} bytes"):
        unfold("zstd", claim)


def test_a_content_size_of_zstd_that_is_a_lie_is_an_error() -> None:
    lie = bytearray(zstd_frame()(b"data" * 10))
    assert lie[4] == 0x20, "a content size of one byte"
    lie[5] += 1
    with pytest.raises(InputError, match="not valid zstd data"):
        unfold("zstd", bytes(lie))


def test_codings_are_there_as_their_libraries_are(without: Callable[[str], None]) -> None:
    assert content_coding.available() == ("zstd", "br", "gzip", "deflate")
    assert accept_encoding.negotiate(b"br, gzip, zstd").coding == "zstd"
    without("zstandard")
    assert content_coding.available() == ("br", "gzip", "deflate")
    assert accept_encoding.negotiate(b"br, gzip, zstd").coding == "br"
    without("brotli")
    assert content_coding.available() == ("gzip", "deflate")
    assert accept_encoding.negotiate(b"br, gzip, zstd").coding == "gzip"
    assert accept_encoding.negotiate(b"br, zstd").coding is None


def test_a_brotli_without_bounds_is_not_used(monkeypatch: pytest.MonkeyPatch, without: Callable[[str], None]) -> None:
    class Decompressor:
        """As it was before 1.2."""

    without("nothing")
    monkeypatch.setattr(brotli, "Decompressor", Decompressor)
    assert "br" not in content_coding.available()


@pytest.mark.parametrize("library", ["zstandard", "brotli"])
def test_nothing_is_imported_before_it_is_used(library: str) -> None:
    program = f"import sys, guepard.server.app; assert {library!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
