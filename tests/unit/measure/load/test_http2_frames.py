"""Frames of HTTP/2 out of bytes, and back."""

import pytest

from guepard.measure.load import http2_frames as h2
from guepard.measure.load.http2_frames import Frame, FrameReader, ProtocolViolation
from tests.services.grpc_calls import http2_frame

FRAMES: list[Frame] = [
    (h2.SETTINGS, 0, 0, b""),
    (h2.HEADERS, h2.END_HEADERS, 1, b"\x88"),
    (h2.DATA, 0, 1, bytes(range(256))),
    (h2.DATA, h2.END_STREAM, h2.LARGEST_WINDOW, b"x" * h2.SMALLEST_MAX_FRAME),
    (0xFA, 0xFF, 3, b"an extension"),
    (h2.PING, h2.ACK, 0, b"12345678"),
]


@pytest.mark.parametrize("step", [1, 2, 3, 5, 8, 9, 10, 11, 100, 16_393, 1 << 20])
def test_frames_do_not_depend_on_the_cuts(step: int) -> None:
    data = b"".join(http2_frame(*frame) for frame in FRAMES)
    reader = FrameReader()
    found = [frame for begin in range(0, len(data), step) for frame in reader.feed(data[begin : begin + step])]
    assert found == FRAMES


def test_the_reserved_bit_of_a_stream_is_ignored() -> None:
    ((_, _, stream, _),) = FrameReader().feed(http2_frame(h2.DATA, 0, 0x8000_0005, b""))
    assert stream == 5


def test_a_frame_that_is_too_long_is_refused_after_those_before_it() -> None:
    frames = FrameReader().feed(http2_frame(*FRAMES[1]) + (h2.SMALLEST_MAX_FRAME + 1).to_bytes(3) + bytes(6))
    assert next(frames) == FRAMES[1]
    with pytest.raises(ProtocolViolation, match="16385 bytes") as caught:
        next(frames)
    assert caught.value.code == h2.FRAME_SIZE_ERROR


def test_frames_are_written_as_an_independent_writer_does() -> None:
    assert h2.frame(h2.PING, h2.ACK, 7, b"payload") == http2_frame(6, 1, 7, b"payload")
    assert h2.frame_head(70_000, h2.DATA, 1) + (9).to_bytes(4) == http2_frame(0, 1, 9, bytes(70_000))[:9]
    assert h2.settings_frame([(4, 65_536), (2, 0)]) == http2_frame(4, 0, 0, b"\0\4\0\1\0\0\0\2\0\0\0\0")
    assert h2.window_update_frame(3, 1 << 20) == http2_frame(8, 0, 3, b"\0\x10\0\0")
    assert h2.reset_frame(5, h2.CANCEL) == http2_frame(3, 0, 5, b"\0\0\0\x08")
    assert h2.goaway_frame(1) == http2_frame(7, 0, 0, b"\0\0\0\0\0\0\0\1")


@pytest.mark.parametrize("size", [1, 16_384, 16_385, 50_000])
def test_long_headers_continue(size: int) -> None:
    block = bytes(number % 251 for number in range(size))
    frames = list(FrameReader().feed(h2.header_frames(9, block)))
    assert b"".join(payload for _, _, _, payload in frames) == block
    assert [kind for kind, _, _, _ in frames] == [h2.HEADERS] + [h2.CONTINUATION] * (len(frames) - 1)
    assert [flags for _, flags, _, _ in frames] == [0] * (len(frames) - 1) + [h2.END_HEADERS]
    assert {stream for _, _, stream, _ in frames} == {9}


def test_padding_and_priority_are_taken_off() -> None:
    assert h2.content(h2.PADDED, b"\x03text\0\0\0", h2.DATA) == b"text"
    assert h2.content(h2.PADDED, b"\0text", h2.DATA) == b"text"
    assert h2.content(h2.HAS_PRIORITY, b"\0\0\0\1\x10block", h2.HEADERS) == b"block"
    assert h2.content(h2.PADDED | h2.HAS_PRIORITY, b"\x02\0\0\0\1\x10block\0\0", h2.HEADERS) == b"block"
    # A flag that means nothing to this kind.
    assert h2.content(h2.HAS_PRIORITY, b"12345678", h2.DATA) == b"12345678"


@pytest.mark.parametrize(("flags", "payload"), [(8, b""), (8, b"\x05text"), (0x20, b"1234"), (0x28, b"\x01\0\0\0\0\0")])
def test_more_padding_than_frame_is_refused(flags: int, payload: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        h2.content(flags, payload, h2.HEADERS)


def test_payloads_of_a_wrong_length_are_refused() -> None:
    assert list(h2.settings_of(b"\0\4\0\0\0\7\0\x63\0\0\0\1")) == [(4, 7), (99, 1)]
    with pytest.raises(ProtocolViolation, match="SETTINGS of 5 bytes"):
        h2.settings_of(b"12345")
    assert h2.words_of(b"\0\0\0\1\0\0\0\2more", 2, "GOAWAY", is_longer=True) == (1, 2)
    for payload in (b"123", b"12345"):
        with pytest.raises(ProtocolViolation):
            h2.words_of(payload, 1, "RST_STREAM")
