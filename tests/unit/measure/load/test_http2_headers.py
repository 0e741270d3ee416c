"""Header blocks: what we write is what others read, and the other way round."""

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.measure.load.http2_frames import ProtocolViolation
from guepard.measure.load.http2_headers import HeaderReader, ReplyHead, header_block

REQUEST = [
    (b":method", b"POST"),
    (b":scheme", b"https"),
    (b":path", b"/package.Service/" + b"Method" * 100),
    (b":authority", b"[::1]:8001"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
    (b"user-agent", b"x" * 127),
    (b"x-" + b"n" * 300, b""),
]
NAMES = st.sampled_from([b":status", b"grpc-status", b"server-timing", b"content-type", b"grpc-message", b"x-else"])
VALUES = st.sampled_from(
    [b"200", b"503", b"0", b"13", b"", b"application/grpc", b"q;dur=1.25", b"\xc3\xa9", b"x" * 200]
)
FIELDS = st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=6)


def test_a_library_reads_what_we_write_and_its_table_stays_empty() -> None:
    decoder = hpack.Decoder()
    for _ in range(2):
        assert list(decoder.decode(header_block(REQUEST), raw=True)) == REQUEST
    assert not decoder.header_table.dynamic_entries


@given(st.lists(st.tuples(FIELDS, st.booleans(), st.sampled_from([None, 0, 100, 4_096])), max_size=12))
def test_we_read_what_a_library_writes(blocks: list[tuple[list[tuple[bytes, bytes, bool]], bool, int | None]]) -> None:
    """With and without Huffman codes, tables that fill, shrink and empty, and fields that stay out of them."""
    encoder, reader = hpack.Encoder(), HeaderReader()
    for fields, huffman, table_size in blocks:
        if table_size is not None:
            encoder.header_table_size = table_size
        block = encoder.encode([(name, value, secret) for name, value, secret in fields], huffman=huffman)
        assert reader.read(block) == meaning(fields)
        assert reader.read(header_block([(name, value) for name, value, _ in fields])) == meaning(fields)


def meaning(fields: list[tuple[bytes, bytes, bool]]) -> ReplyHead:
    values = {name: value for name, value, _ in fields}
    status, grpc_status = values.get(b":status", b""), values.get(b"grpc-status")
    return ReplyHead(
        int(status) if status in (b"200", b"503") else 0,
        None if grpc_status is None else int(grpc_status) if grpc_status in (b"0", b"13") else 2,
        values.get(b"server-timing", b""),
    )


def test_what_a_block_meant_is_forgotten_when_the_table_changes() -> None:
    reader = HeaderReader()
    first = b"\x40\x0bgrpc-status\x01"
    reader.read(first + b"7")
    assert reader.read(b"\xbe").grpc_status == 7
    assert reader.read(b"\xbe").grpc_status == 7
    reader.read(first + b"8")
    assert reader.read(b"\xbe").grpc_status == 8
    assert reader.read(b"\xbf").grpc_status == 7
    reader.read(b"\x20")  # the table is to be emptied
    with pytest.raises(ProtocolViolation):
        reader.read(b"\xbe")


def test_a_timing_that_is_another_each_time_hides_nothing() -> None:
    def block(status: bytes, timing: bytes, *more: tuple[bytes, bytes]) -> bytes:
        return header_block([(b"grpc-status", status), (b"server-timing", timing), *more])

    reader = HeaderReader()
    for number in range(10):
        timing = b"q;dur=%d" % number * (20 * number + 1)
        assert reader.read(block(b"0", timing)) == ReplyHead(0, 0, timing)
        assert reader.read(block(b"7", timing)) == ReplyHead(0, 7, timing)
        assert reader.read(block(b"0", timing, (b":status", b"500"))) == ReplyHead(500, 0, timing)
    assert len(reader._known) == 2
    assert reader.read(header_block([(b"server-timing", b"alone")])) == ReplyHead(0, None, b"alone")
    for end in range(20, len(block(b"0", b"q;dur=1"))):
        with pytest.raises(ProtocolViolation):
            reader.read(block(b"0", b"q;dur=1")[:end])


def test_what_is_remembered_is_bounded() -> None:
    reader = HeaderReader()
    for number in range(1_000):
        assert reader.read(header_block([(b"grpc-status", b"3"), (b"x-id", b"%d" % number)])).grpc_status == 3
    assert len(reader._known) <= 256


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # index 0
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # an index without end
        b"\xfe",  # beyond the table
        b"\x00\x05abc",  # a name beyond the end
        b"\x00\x01a\x7f",  # a length beyond the end
        b"\x00\x01a",  # no value
        b"\x00\x81\x00\x00",  # a Huffman code without end
        b"\x3f\xff\xff\xff\x7f",  # a table larger than allowed
        b"\x40",
    ],
)
def test_blocks_that_mean_nothing_are_violations(block: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        HeaderReader().read(block)


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_no_bytes_do_more_than_violate(blocks: list[bytes]) -> None:
    reader = HeaderReader()
    try:
        for block in blocks:
            assert isinstance(reader.read(block), ReplyHead)
    except ProtocolViolation:
        pass
