"""An HTTP/2 server that answers the n-th call as a script says, on a thread, on loopback. It knows frames, no rules."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.services.grpc_calls import http2_frame

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
RESPONSE_HEADERS = b"\x88\x5f\x10application/grpc"
"""`:status: 200` from the static table, `content-type` to be put into the peer's."""

Step = bytes | str
"""Bytes to send, or `close`."""
Script = Callable[[int, int], Sequence[Step]]
"""Gets the number of the call, counted over all connections from 0, and its stream."""


@dataclass
class ScriptedHttp2:
    port: int
    connections: int = 0
    calls: int = 0
    most_open: int = 0
    """Calls that were unanswered at once on one connection."""
    resets: list[int] = field(default_factory=list)
    """Codes of the streams that the client gave up."""
    frames: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    """All that came: kind, flags, stream, payload."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return http2_frame(kind, flags, stream, payload)


def word(value: int) -> bytes:
    return value.to_bytes(4)


def literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(stream: int, block: bytes = RESPONSE_HEADERS) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, block)


def message(stream: int, body: bytes = b"answer", flags: int = 0) -> bytes:
    return frame(DATA, flags, stream, b"\0" + word(len(body)) + body)


def trailers(stream: int, status: bytes = b"0", *more: bytes) -> bytes:
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(b"grpc-status", status) + b"".join(more))


def ok(stream: int, body: bytes = b"answer") -> bytes:
    return head(stream) + message(stream, body) + trailers(stream)


def goaway(last: int, code: int = 0) -> bytes:
    return frame(GOAWAY, 0, 0, word(last) + word(code))


@contextmanager
def scripted_http2(
    script: Script, greeting: bytes | None = None, *, greets_after_s: float = 0.0
) -> Iterator[ScriptedHttp2]:
    """`greeting` comes first on each connection; without it, empty SETTINGS. Windows are opened for all that comes."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = ScriptedHttp2(listener.getsockname()[1])
    lock = threading.Lock()
    threads: list[threading.Thread] = []
    open_ones: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server.connections += 1
                open_ones.append(connection)
                thread = threading.Thread(target=converse, args=(connection,))
                threads.append(thread)
                thread.start()

    def converse(connection: socket.socket) -> None:
        unanswered: set[int] = set()
        with connection, suppress(OSError):
            time.sleep(greets_after_s)
            connection.sendall(frame(SETTINGS, 0, 0) if greeting is None else greeting)
            for frames in read_frames(connection):
                server.frames += frames
                unanswered.update(stream for kind, _, stream, _ in frames if kind == HEADERS)
                unanswered.difference_update(stream for kind, _, stream, _ in frames if kind == RESET)
                server.most_open = max(server.most_open, len(unanswered))
                for kind, flags, stream, payload in frames:
                    if kind == RESET:
                        server.resets.append(int.from_bytes(payload))
                    elif kind == SETTINGS and not flags & ACK:
                        connection.sendall(frame(SETTINGS, ACK, 0))
                    elif kind == DATA:
                        update = word(max(1, len(payload)))
                        connection.sendall(frame(WINDOW_UPDATE, 0, 0, update))
                        if not flags & END_STREAM:
                            connection.sendall(frame(WINDOW_UPDATE, 0, stream, update))
                            continue
                        with lock:
                            number, server.calls = server.calls, server.calls + 1
                        for step in script(number, stream):
                            if not isinstance(step, bytes):
                                return
                            connection.sendall(step)
                            unanswered.difference_update([each for each in unanswered if last_head(each) in step])

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield server
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for connection in open_ones:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def last_head(stream: int) -> bytes:
    """What the frame that ends a stream begins with, but for its length."""
    return trailers(stream)[3:9]


def read_frames(connection: socket.socket) -> Iterator[list[tuple[int, int, int, bytes]]]:
    """What each read brought, until the client leaves. The preface is skipped."""
    data, begin = b"", 24
    while more := connection.recv(1 << 20):
        data += more
        frames = []
        while len(data) - begin >= 9 and len(data) >= (end := begin + 9 + int.from_bytes(data[begin : begin + 3])):
            stream = int.from_bytes(data[begin + 5 : begin + 9])
            frames.append((data[begin + 3], data[begin + 4], stream, data[begin + 9 : end]))
            begin = end
        if begin > 24:
            data, begin = data[begin:], 0
        yield frames
