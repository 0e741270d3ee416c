"""The client's side of a connection, fed with bytes: windows, settings, streams, and what HTTP/2 forbids."""

from collections.abc import Iterator

import pytest

from guepard.measure.load import http2_frames as h2
from guepard.measure.load.http2_connection import CONNECTION_WINDOW, STREAM_WINDOW, Http2Connection, RequestForm
from guepard.measure.load.http2_frames import FrameReader, ProtocolViolation
from guepard.measure.load.http2_headers import ReplyHead, header_block
from tests.unit.measure.load.scripted_http2 import frame, goaway, head, literal, message, ok, trailers, word

BLOCK = header_block([(b":method", b"POST"), (b":path", b"/a.B/C")])


class Heard:
    """A stream that writes down what it is told."""

    def __init__(self) -> None:
        self.stream_id = 0
        self.unacknowledged = 0
        self.told: list[object] = []
        self.size = 0

    def take_head(self, head: ReplyHead, size: int, is_last: bool) -> None:
        self.size += size
        self.told.append((head.status, head.grpc_status, is_last))

    def take_data(self, data: bytes, size: int, is_last: bool) -> None:
        self.size += size
        self.told.append((data, is_last))

    def take_reset(self, code: int) -> None:
        self.told.append(code)


def settings(**values: int) -> bytes:
    names = {"most_streams": 3, "window": 4, "frame": 5}
    return frame(4, 0, 0, b"".join(names[name].to_bytes(2) + word(value) for name, value in values.items()))


def ready(**values: int) -> Http2Connection[Heard]:
    connection: Http2Connection[Heard] = Http2Connection()
    connection.feed(settings(**values))
    connection.out.clear()
    return connection


def opened(connection: Http2Connection[Heard], body: bytes = b"question") -> Heard:
    stream = Heard()
    connection.open(stream, RequestForm(BLOCK, len(body)), body)
    return stream


def sent(connection: Http2Connection[Heard]) -> Iterator[tuple[int, int, int, bytes]]:
    """What the connection has to say, which is said then."""
    data = b"".join(connection.out)
    connection.out.clear()
    while data:
        size = int.from_bytes(data[:3])
        yield data[3], data[4], int.from_bytes(data[5:9]), data[9 : 9 + size]
        data = data[9 + size :]


def data_sizes(connection: Http2Connection[Heard]) -> list[tuple[int, int, int]]:
    """Stream, length and flags of the DATA frames among what is said."""
    return [(stream, len(payload), flags) for kind, flags, stream, payload in sent(connection) if kind == h2.DATA]


def test_it_begins_with_the_preface_and_large_windows() -> None:
    connection: Http2Connection[Heard] = Http2Connection()
    data = b"".join(connection.out)
    assert data.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    first, second = FrameReader().feed(data[24:])
    assert first == (h2.SETTINGS, 0, 0, b"\0\2\0\0\0\0" + b"\0\4" + word(STREAM_WINDOW))
    assert second == (h2.WINDOW_UPDATE, 0, 0, word(CONNECTION_WINDOW - 65_535))
    assert not connection.is_ready


def test_a_short_call_is_two_frames() -> None:
    connection = ready()
    opened(connection, b"abc")
    stream = opened(connection, b"defg")
    assert list(sent(connection)) == [
        (h2.HEADERS, h2.END_HEADERS, 1, BLOCK),
        (h2.DATA, h2.END_STREAM, 1, b"\0\0\0\0\3abc"),
        (h2.HEADERS, h2.END_HEADERS, 3, BLOCK),
        (h2.DATA, h2.END_STREAM, 3, b"\0\0\0\0\4defg"),
    ]
    assert stream.stream_id == 3


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_answers_reach_their_streams_however_bytes_are_cut(step: int) -> None:
    connection = ready()
    one, two = opened(connection), opened(connection)
    data = head(3) + head(1) + message(1) + message(3, b"other") + trailers(3, b"5") + trailers(1)
    for begin in range(0, len(data), step):
        connection.feed(data[begin : begin + step])
    assert one.told == [(200, None, False), (b"\0\0\0\0\6answer", False), (0, 0, True)]
    assert two.told == [(200, None, False), (b"\0\0\0\0\5other", False), (0, 5, True)]
    assert one.size == len(ok(1))
    assert not connection.streams


def test_padding_priority_and_continuations_make_no_difference() -> None:
    connection = ready()
    stream = opened(connection)
    block = literal(b"grpc-status", b"0")
    connection.feed(frame(h2.PRIORITY, 0, 1, b"12345") + frame(0xFA, 0xFF, 0, b"unknown"))
    connection.feed(frame(h2.HEADERS, h2.END_HEADERS | h2.PADDED | h2.HAS_PRIORITY, 1, b"\2\0\0\0\0\x10\x88\0\0"))
    connection.feed(frame(h2.DATA, h2.PADDED, 1, b"\3text\0\0\0"))
    connection.feed(frame(h2.HEADERS, h2.END_STREAM, 1, block[:3]) + frame(h2.CONTINUATION, 0, 1, block[3:5]))
    connection.feed(frame(h2.CONTINUATION, h2.END_HEADERS, 1, block[5:]))
    assert stream.told == [(200, None, False), (b"text", False), (0, 0, True)]


def test_settings_and_pings_are_acknowledged() -> None:
    connection: Http2Connection[Heard] = Http2Connection()
    connection.out.clear()
    connection.feed(settings(most_streams=7) + frame(h2.PING, 0, 0, b"12345678") + frame(h2.SETTINGS, h2.ACK, 0))
    connection.feed(frame(h2.PING, h2.ACK, 0, b"87654321"))
    assert list(sent(connection)) == [(h2.SETTINGS, h2.ACK, 0, b""), (h2.PING, h2.ACK, 0, b"12345678")]
    assert connection.is_ready
    assert connection.most_streams == 7


def test_a_long_message_goes_as_far_as_frames_and_windows_allow() -> None:
    connection = ready(window=40_000)
    opened(connection, bytes(100_000 - 5))
    assert data_sizes(connection) == [(1, 16_384, 0), (1, 16_384, 0), (1, 7_232, 0)]
    connection.feed(frame(h2.WINDOW_UPDATE, 0, 1, word(60_000)))
    assert data_sizes(connection) == [(1, 16_384, 0), (1, 9_151, 0)]  # the connection's 65,535 are used up
    connection.feed(frame(h2.WINDOW_UPDATE, 0, 0, word(34_464)))
    assert data_sizes(connection) == [(1, 16_384, 0), (1, 16_384, 0), (1, 1_696, 0)]
    connection.feed(frame(h2.WINDOW_UPDATE, 0, 0, word(1)))
    assert data_sizes(connection) == [(1, 1, h2.END_STREAM)]


def test_larger_frames_are_used_when_the_peer_takes_them() -> None:
    connection = ready(window=1 << 20, frame=50_000)
    opened(connection, bytes(60_000 - 5))
    assert data_sizes(connection) == [(1, 50_000, 0), (1, 10_000, h2.END_STREAM)]


def test_a_changed_initial_window_changes_those_of_open_streams_even_below_zero() -> None:
    connection = ready(window=30_000)
    opened(connection, bytes(50_000 - 5))
    assert data_sizes(connection) == [(1, 16_384, 0), (1, 13_616, 0)]
    connection.feed(settings(window=10_000))  # 20,000 too many have been sent
    connection.feed(frame(h2.WINDOW_UPDATE, 0, 1, word(20_000)))
    assert data_sizes(connection) == []
    connection.feed(frame(h2.WINDOW_UPDATE, 0, 1, word(1)))
    assert data_sizes(connection) == [(1, 1, 0)]
    connection.feed(settings(window=40_000))
    assert data_sizes(connection) == [(1, 16_384, 0), (1, 3_615, h2.END_STREAM)]


def test_short_calls_pass_one_whose_own_window_is_shut_and_wait_for_the_connections() -> None:
    connection = ready(window=1_000)
    opened(connection, bytes(5_000))
    opened(connection, b"short")
    assert data_sizes(connection) == [(1, 1_000, 0), (3, 10, h2.END_STREAM)]
    connection.feed(settings(window=1 << 20))
    assert data_sizes(connection) == [(1, 4_005, h2.END_STREAM)]
    opened(connection, bytes(100_000))
    list(sent(connection))
    opened(connection, b"short")
    assert data_sizes(connection) == []
    connection.feed(frame(h2.WINDOW_UPDATE, 0, 0, word(1 << 20)))
    assert [(stream, flags) for stream, _, flags in data_sizes(connection)][-2:] == [(5, 1), (7, 1)]


def test_windows_are_opened_again_before_they_are_used_up() -> None:
    connection = ready()
    stream = opened(connection)
    list(sent(connection))
    connection.feed(head(1))
    piece = frame(h2.DATA, 0, 1, bytes(16_384))
    updates: dict[int, int] = {0: 0, 1: 0}
    for number in range(1, 2 * CONNECTION_WINDOW // 16_384):
        connection.feed(piece)
        for kind, _, stream_id, payload in sent(connection):
            assert kind == h2.WINDOW_UPDATE
            updates[stream_id] += int.from_bytes(payload)
        assert number * 16_384 - updates[0] < CONNECTION_WINDOW - 16_384
        assert number * 16_384 - updates[1] < STREAM_WINDOW - 16_384
    assert len(stream.told) == 2 * CONNECTION_WINDOW // 16_384


def test_frames_of_a_cancelled_stream_are_skipped_but_count() -> None:
    connection = ready()
    gone, other = opened(connection, bytes(100_000)), opened(connection)
    list(sent(connection))
    connection.cancel(gone)
    connection.cancel(gone)
    assert list(sent(connection)) == [(h2.RST_STREAM, 0, 1, word(h2.CANCEL))]
    # The header block puts content-type into the table, which the next block refers to.
    connection.feed(ok(1) + frame(h2.WINDOW_UPDATE, 0, 1, word(9)) + frame(h2.RST_STREAM, 0, 1, word(0)))
    for _ in range(CONNECTION_WINDOW // 2 // 16_384 + 1):
        connection.feed(frame(h2.DATA, 0, 1, bytes(16_384)))
    assert (h2.WINDOW_UPDATE, 0) in [(kind, stream) for kind, _, stream, _ in sent(connection)]
    connection.feed(frame(h2.HEADERS, h2.END_HEADERS, 3, b"\x88\xbe"))
    assert gone.told == []
    assert other.told == [(200, None, False)]


def test_an_answer_before_the_end_of_the_question_ends_that() -> None:
    connection = ready()
    stream = opened(connection, bytes(100_000))
    list(sent(connection))
    connection.feed(frame(h2.HEADERS, 5, 1, b"\x88" + literal(b"grpc-status", b"8")))
    assert stream.told == [(200, 8, True)]
    connection.feed(frame(h2.WINDOW_UPDATE, 0, 0, word(1 << 20)))
    assert list(sent(connection)) == [(h2.RST_STREAM, 0, 1, word(h2.CANCEL))]


def test_a_reset_ends_a_stream() -> None:
    connection = ready()
    stream = opened(connection, bytes(100_000))
    list(sent(connection))
    connection.feed(frame(h2.RST_STREAM, 0, 1, word(h2.REFUSED_STREAM)) + frame(h2.WINDOW_UPDATE, 0, 0, word(9)))
    assert stream.told == [h2.REFUSED_STREAM]
    assert not connection.streams
    assert list(sent(connection)) == []


def test_streams_beyond_a_goaway_are_given_back() -> None:
    connection = ready()
    one, two, three = opened(connection), opened(connection), opened(connection, bytes(100_000))
    connection.feed(goaway(h2.LARGEST_WINDOW))
    assert connection.take_back(connection.goaway_after or 0) == []
    connection.feed(goaway(1))
    assert connection.take_back(connection.goaway_after or 0) == [two, three]
    connection.feed(frame(h2.WINDOW_UPDATE, 0, 0, word(1 << 20)) + frame(h2.WINDOW_UPDATE, 0, 5, word(1 << 20)) + ok(1))
    assert (5, h2.END_STREAM) not in [(stream, flags) for stream, _, flags in data_sizes(connection)]
    assert len(one.told) == 3
    assert two.told == three.told == []


VIOLATIONS = {
    "a frame of a stream that nobody opened": head(3),
    "data of one": message(3),
    "a reset of one": frame(3, 0, 3, word(8)),
    "a window of one": frame(8, 0, 3, word(1)),
    "a stream of the server": head(2),
    "data of the connection": message(0),
    "settings of a stream": frame(4, 0, 1),
    "a ping of a stream": frame(6, 0, 1, bytes(8)),
    "a goaway of a stream": frame(7, 0, 1, bytes(8)),
    "half a setting": frame(4, 0, 0, b"123"),
    "a window of nothing": frame(8, 0, 0, word(0)),
    "a window of nothing on a stream": frame(8, 0, 1, word(0)),
    "a window beyond the end": frame(8, 0, 0, word(h2.LARGEST_WINDOW)) + frame(8, 0, 0, word(1 << 20)),
    "a stream's window beyond the end": frame(8, 0, 1, word(h2.LARGEST_WINDOW)) + frame(8, 0, 1, word(1 << 20)),
    "an initial window beyond the end": frame(4, 0, 0, b"\0\4" + word(1 << 31)),
    "a maximum below the least": frame(4, 0, 0, b"\0\5" + word(16_383)),
    "a maximum above the most": frame(4, 0, 0, b"\0\5" + word(1 << 24)),
    "a short ping": frame(6, 0, 0, b"1234567"),
    "a short goaway": frame(7, 0, 0, b"1234567"),
    "a short reset": frame(3, 0, 1, b"123"),
    "a long window update": frame(8, 0, 1, b"12345"),
    "a push": frame(5, 4, 1, word(2) + b"\x88"),
    "a continuation of nothing": frame(9, 4, 1, b"\x88"),
    "a frame within headers": frame(1, 0, 1, b"\x88") + frame(6, 0, 0, bytes(8)),
    "a continuation of another stream": frame(1, 0, 1, b"\x88") + frame(9, 4, 3, b""),
    "headers without end": frame(1, 0, 1, b"\x88") + frame(9, 0, 1, b"\x88" * 16_384) * 16,
    "headers that cannot be read": frame(1, 4, 1, b"\xff\xff\xff\xff\xff\xff\xff"),
    "more padding than frame": frame(0, 8, 1, b"\x09text"),
    "a frame that is too long": frame(0, 0, 1, bytes(16_385)),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_what_the_protocol_forbids_is_a_violation(name: str) -> None:
    connection = ready()
    opened(connection, bytes(100_000))
    with pytest.raises(ProtocolViolation):
        connection.feed(VIOLATIONS[name])


def test_what_does_not_begin_with_settings_is_none_of_ours() -> None:
    for data in (
        frame(6, 0, 0, bytes(8)),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x46" + bytes(9),
    ):
        connection: Http2Connection[Heard] = Http2Connection()
        with pytest.raises(ProtocolViolation):
            connection.feed(data)
