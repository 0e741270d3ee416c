"""A client's side of one HTTP/2 connection: its streams, windows and settings. Bytes in and out, without a socket.

What is to be sent gathers in `out`, so that all that one turn of a loop has to say leaves in one system call. Windows
for what comes in are large, and opened again when half used: a load generator must not be what holds an answer up.

Source: RFC 9113.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from guepard.measure.load import http2_frames as h2
from guepard.measure.load.http2_frames import FrameReader, ProtocolViolation
from guepard.measure.load.http2_headers import HeaderReader, ReplyHead

STREAM_WINDOW = 16 << 20
CONNECTION_WINDOW = 64 << 20
_LONGEST_BLOCK = 256 << 10
_LAST_GOOD_ID = h2.LARGEST_WINDOW - (1 << 20)


class Stream(Protocol):
    """Who asked, and takes the answer. After a call with `is_last`, or a reset, it hears nothing more.

    `size` is the bytes of the frames, heads included.
    """

    stream_id: int
    unacknowledged: int
    """Bytes of its window that it has used; the connection's to count."""

    def take_head(self, head: ReplyHead, size: int, is_last: bool) -> None: ...

    def take_data(self, data: bytes, size: int, is_last: bool) -> None: ...

    def take_reset(self, code: int) -> None: ...


AnyStream = TypeVar("AnyStream", bound=Stream)


class RequestForm:
    """What all requests of one payload have in common: the header block, and the length of the message."""

    __slots__ = ("block", "head", "is_short", "middle", "prefix", "size")

    def __init__(self, block: bytes, message_bytes: int) -> None:
        self.block = block
        self.size = 5 + message_bytes
        self.prefix = b"\0" + message_bytes.to_bytes(4, "big")
        self.head = h2.frame_head(len(block), h2.HEADERS, h2.END_HEADERS)
        self.middle = block + h2.frame_head(self.size, h2.DATA, h2.END_STREAM)
        self.is_short = len(block) <= h2.SMALLEST_MAX_FRAME >= self.size


class _Upload:
    """A message that has not left whole, because windows or frames were too small for it."""

    __slots__ = ("at", "body", "stream_id", "window")

    def __init__(self, stream_id: int, body: memoryview, window: int) -> None:
        self.stream_id = stream_id
        self.body = body
        self.at = 0
        self.window = window


class Http2Connection(Generic[AnyStream]):
    """One connection. Its first bytes are in `out` from the beginning.

    is_ready: the peer's settings have come; nothing may be opened before. most_streams: the peer takes so many at
    once. goaway_after: the last stream that it will answer, once it has said so.
    """

    def __init__(self) -> None:
        self.streams: dict[int, AnyStream] = {}
        self.is_ready = False
        self.most_streams = h2.LARGEST_WINDOW
        self.goaway_after: int | None = None
        self.out: list[bytes | memoryview] = [
            h2.PREFACE,
            h2.settings_frame(((h2.ENABLE_PUSH, 0), (h2.INITIAL_WINDOW_SIZE, STREAM_WINDOW))),
            h2.window_update_frame(0, CONNECTION_WINDOW - h2.DEFAULT_WINDOW),
        ]
        self._reader = FrameReader()
        self._headers = HeaderReader()
        self._next_id = 1
        self._unacknowledged = 0
        self._window = h2.DEFAULT_WINDOW
        self._initial_window = h2.DEFAULT_WINDOW
        self._max_frame = h2.SMALLEST_MAX_FRAME
        self._uploads: dict[int, _Upload] = {}
        self._block: tuple[int, int, bytearray] | None = None
        """Stream, flags and bytes of headers whose CONTINUATION is still to come."""

    # Out

    def open(self, stream: AnyStream, form: RequestForm, message: bytes) -> None:
        """Begin a request. The caller has seen that the connection is ready and has room."""
        stream_id = stream.stream_id = self._next_id
        self._next_id = stream_id + 2
        self.streams[stream_id] = stream
        size = form.size
        if form.is_short and size <= self._window and size <= self._initial_window:
            self._window -= size
            number = stream_id.to_bytes(4, "big")
            self.out += (form.head, number, form.middle, number, form.prefix, message)
            return
        self.out.append(h2.header_frames(stream_id, form.block))
        self._uploads[stream_id] = _Upload(stream_id, memoryview(form.prefix + message), self._initial_window)
        self._send_uploads()

    def cancel(self, stream: AnyStream, code: int = h2.CANCEL) -> None:
        """Give up a stream, if it has not ended. Frames of it that still come are skipped."""
        if self.streams.pop(stream.stream_id, None) is not None:
            self._uploads.pop(stream.stream_id, None)
            self.out.append(h2.reset_frame(stream.stream_id, code))

    def take_back(self, after: int) -> list[AnyStream]:
        """The streams with numbers above `after`, which are open no more. Nothing is sent."""
        late = [stream_id for stream_id in self.streams if stream_id > after]
        for stream_id in late:
            self._uploads.pop(stream_id, None)
        return [self.streams.pop(stream_id) for stream_id in late]

    @property
    def is_worn_out(self) -> bool:
        """There are few numbers left for streams."""
        return self._next_id > _LAST_GOOD_ID

    def _send_uploads(self) -> None:
        """First come, first served: half a message is of no use to the peer."""
        for upload in list(self._uploads.values()):
            if self._window <= 0:
                return
            total = len(upload.body)
            while (size := min(total - upload.at, self._max_frame, self._window, upload.window)) > 0:
                end = upload.at + size
                flags = h2.END_STREAM if end == total else 0
                self.out.append(h2.frame_head(size, h2.DATA, flags) + upload.stream_id.to_bytes(4, "big"))
                self.out.append(upload.body[upload.at : end])
                upload.at = end
                upload.window -= size
                self._window -= size
            if upload.at == total:
                del self._uploads[upload.stream_id]

    # In

    def feed(self, data: bytes) -> None:
        """Take what came, and tell the streams. Raises: ProtocolViolation."""
        for kind, flags, stream_id, payload in self._reader.feed(data):
            if self._block is not None and kind != h2.CONTINUATION:
                raise ProtocolViolation(h2.PROTOCOL_ERROR, "a frame between headers and their continuation")
            if not self.is_ready and kind != h2.SETTINGS:
                raise ProtocolViolation(h2.PROTOCOL_ERROR, "the connection did not begin with SETTINGS")
            if kind < len(_TAKERS):  # other kinds are extensions, to be ignored
                _TAKERS[kind](self, flags, stream_id, payload)
        if self._unacknowledged > CONNECTION_WINDOW // 2:
            self.out.append(h2.window_update_frame(0, self._unacknowledged))
            self._unacknowledged = 0

    def _take_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._unacknowledged += size
        stream = self._stream(stream_id)
        if stream is None:
            return
        if flags & h2.PADDED:
            payload = h2.content(flags, payload, h2.DATA)
        if flags & h2.END_STREAM:
            self._ended(stream_id)
            stream.take_data(payload, size + 9, True)
            return
        stream.unacknowledged += size
        if stream.unacknowledged > STREAM_WINDOW // 2:
            self.out.append(h2.window_update_frame(stream_id, stream.unacknowledged))
            stream.unacknowledged = 0
        stream.take_data(payload, size + 9, False)

    def _take_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if flags & (h2.PADDED | h2.HAS_PRIORITY):
            payload = h2.content(flags, payload, h2.HEADERS)
        if flags & h2.END_HEADERS:
            self._take_block(flags, stream_id, payload)
        else:
            self._block = (stream_id, flags, bytearray(payload))

    def _take_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != stream_id:
            raise ProtocolViolation(h2.PROTOCOL_ERROR, "a continuation of nothing")
        _, first_flags, block = self._block
        block += payload
        if len(block) > _LONGEST_BLOCK:
            raise ProtocolViolation(h2.ENHANCE_YOUR_CALM, "headers without end")
        if flags & h2.END_HEADERS:
            self._block = None
            self._take_block(first_flags, stream_id, bytes(block))

    def _take_block(self, flags: int, stream_id: int, block: bytes) -> None:
        head = self._headers.read(block)  # of streams that have gone as well: the table has to follow
        stream = self._stream(stream_id)
        if stream is None:
            return
        is_last = bool(flags & h2.END_STREAM)
        if is_last:
            self._ended(stream_id)
        stream.take_head(head, len(block) + 9, is_last)

    def _take_priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Deprecated, and nothing to a client."""

    def _take_reset(self, flags: int, stream_id: int, payload: bytes) -> None:
        (code,) = h2.words_of(payload, 1, "RST_STREAM")
        stream = self._stream(stream_id)
        if stream is not None:
            del self.streams[stream_id]
            self._uploads.pop(stream_id, None)
            stream.take_reset(code)

    def _take_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        _expect_connection(stream_id, "SETTINGS")
        if flags & h2.ACK:
            return
        for name, value in h2.settings_of(payload):
            if name == h2.MAX_CONCURRENT_STREAMS:
                self.most_streams = value
            elif name == h2.INITIAL_WINDOW_SIZE:
                if value > h2.LARGEST_WINDOW:
                    raise ProtocolViolation(h2.FLOW_CONTROL_ERROR, f"an initial window of {value}")
                for upload in self._uploads.values():
                    upload.window += value - self._initial_window
                self._initial_window = value
            elif name == h2.MAX_FRAME_SIZE:
                if not h2.SMALLEST_MAX_FRAME <= value <= h2.LARGEST_MAX_FRAME:
                    raise ProtocolViolation(h2.PROTOCOL_ERROR, f"frames of at most {value} bytes")
                self._max_frame = value
            # HEADER_TABLE_SIZE is without effect on an encoder that uses no table.
        self.is_ready = True
        self.out.append(h2.frame(h2.SETTINGS, h2.ACK, 0))
        self._send_uploads()

    def _take_push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise ProtocolViolation(h2.PROTOCOL_ERROR, "a push that was forbidden")

    def _take_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        _expect_connection(stream_id, "PING")
        h2.words_of(payload, 2, "PING")
        if not flags & h2.ACK:
            self.out.append(h2.frame(h2.PING, h2.ACK, 0, payload))

    def _take_goaway(self, flags: int, stream_id: int, payload: bytes) -> None:
        _expect_connection(stream_id, "GOAWAY")
        last = h2.words_of(payload, 2, "GOAWAY", is_longer=True)[0] & h2.LARGEST_WINDOW
        self.goaway_after = last if self.goaway_after is None else min(last, self.goaway_after)

    def _take_window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        increment = h2.words_of(payload, 1, "WINDOW_UPDATE")[0] & h2.LARGEST_WINDOW
        if not increment:
            raise ProtocolViolation(h2.PROTOCOL_ERROR, "a window opened by nothing")
        if not stream_id:
            self._window = window = self._window + increment
        else:
            upload = self._uploads.get(stream_id)
            if upload is None:
                self._check_known(stream_id)
                return
            upload.window = window = upload.window + increment
        if window > h2.LARGEST_WINDOW:
            raise ProtocolViolation(h2.FLOW_CONTROL_ERROR, f"a window of {window}")
        if self._uploads:
            self._send_uploads()

    def _stream(self, stream_id: int) -> AnyStream | None:
        """None if it has ended. Raises: ProtocolViolation if it never began."""
        stream = self.streams.get(stream_id)
        if stream is None:
            self._check_known(stream_id)
        return stream

    def _check_known(self, stream_id: int) -> None:
        if not stream_id & 1 or stream_id >= self._next_id:
            raise ProtocolViolation(h2.PROTOCOL_ERROR, f"a frame of stream {stream_id}, which nobody opened")

    def _ended(self, stream_id: int) -> None:
        """The answer is complete. One that came before the end of its question leaves that without use."""
        del self.streams[stream_id]
        if self._uploads.pop(stream_id, None) is not None:
            self.out.append(h2.reset_frame(stream_id, h2.CANCEL))


def _expect_connection(stream_id: int, name: str) -> None:
    if stream_id:
        raise ProtocolViolation(h2.PROTOCOL_ERROR, f"{name} of stream {stream_id}")


_TAKERS: tuple[Callable[[Http2Connection[Any], int, int, bytes], None], ...] = (
    Http2Connection._take_data,
    Http2Connection._take_headers,
    Http2Connection._take_priority,
    Http2Connection._take_reset,
    Http2Connection._take_settings,
    Http2Connection._take_push_promise,
    Http2Connection._take_ping,
    Http2Connection._take_goaway,
    Http2Connection._take_window_update,
    Http2Connection._take_continuation,
)
"""By kind of frame. Not methods of the object, which would then refer to itself: generators run without collecting."""
