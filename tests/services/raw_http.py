"""A client that sends exactly the bytes it is given and reads answers strictly, for tests of framing."""

import json
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from guepard.testing.running_server import Answer, RunningServer

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def message(
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Iterable[str] = (),
    *,
    version: str = "1.1",
    length: int | None = None,
) -> bytes:
    """One request. With a body it has a Content-Length, the true one unless `length` says another."""
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + (body or b"")


def chunked(
    path: str, chunks: Iterable[bytes], headers: Iterable[str] = (), *, extension: bytes = b"", trailer: bytes = b""
) -> bytes:
    """A POST whose body comes in the given chunks."""
    head = message("POST", path, headers=("Transfer-Encoding: chunked", *headers))
    parts = [b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks if chunk]
    return b"".join((head, *parts, b"0\r\n", trailer, b"\r\n"))


def tensor_body(values: list[float] | list[int], datatype: str = "FP32") -> bytes:
    """An inference request of one row for a model with the one input `x`."""
    tensor = {"name": "x", "datatype": datatype, "shape": [1, len(values)], "data": values}
    return json.dumps({"inputs": [tensor]}).encode()


def infer(values: list[float] | list[int], headers: Iterable[str] = (), model: str = "ident") -> bytes:
    return message("POST", f"/v2/models/{model}/infer", tensor_body(values), headers)


def sleep(milliseconds: int) -> bytes:
    """A request to the model of this name, which takes so long to answer it."""
    return message("POST", "/v2/models/sleep/infer", tensor_body([milliseconds], "INT32"))


def values_of(answer: Answer) -> list[float]:
    """The data of the first output of a right answer."""
    assert answer.status == 200, answer
    data: list[float] = answer.json["outputs"][0]["data"]
    return data


class RawClient:
    """One connection. Every read waits at most `timeout_s` and raises TimeoutError then.

    `pause_s` before every read makes a client that reads slowly but steadily.
    """

    def __init__(
        self, port: int, *, timeout_s: float = 15.0, receive_buffer: int | None = None, pause_s: float = 0.0
    ) -> None:
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(timeout_s)
        self._socket.connect(("127.0.0.1", port))
        self._received = b""
        self._pause_s = pause_s

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def reset(self) -> None:
        """Leave so that the other side sees an error instead of an end."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_each(self, pieces: Iterable[bytes]) -> None:
        """Each piece as a segment of its own."""
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            self._socket.sendall(piece)

    def finish_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def ask(self, data: bytes) -> Answer:
        self.send(data)
        return self.answer()

    def answer(self, *, to_head: bool = False) -> Answer:
        """The next response, whatever its status. `to_head`: it answers a HEAD request and so has no body."""
        while b"\r\n\r\n" not in self._received:
            self._receive()
        top, _, self._received = self._received.partition(b"\r\n\r\n")
        first, *lines = top.decode("latin-1").split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1", first
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(": ")
            assert name.lower() not in headers, f"{name} is given twice"
            headers[name.lower()] = value
        if to_head or status.startswith("1"):
            return Answer(int(status), headers, b"")
        if "transfer-encoding" in headers:
            assert headers["transfer-encoding"] == "chunked"
            assert "content-length" not in headers
            return Answer(int(status), headers, b"".join(iter(self._chunk, b"")))
        return Answer(int(status), headers, self._take(int(headers["content-length"])))

    def _chunk(self) -> bytes:
        """The next chunk of an answer; the last one is empty."""
        while b"\r\n" not in self._received:
            self._receive()
        size, _, self._received = self._received.partition(b"\r\n")
        chunk = self._take(int(size, 16))
        assert self._take(2) == b"\r\n"
        return chunk

    def _take(self, length: int) -> bytes:
        while len(self._received) < length:
            self._receive()
        taken, self._received = self._received[:length], self._received[length:]
        return taken

    def rest(self) -> bytes:
        """What else comes until the server closes."""
        while self._receive(may_end=True):
            pass
        return self._received

    def _receive(self, *, may_end: bool = False) -> bool:
        time.sleep(self._pause_s)
        data = self._socket.recv(262_144)
        if not data and not may_end:
            raise EOFError(f"the server closed after {self._received!r}")
        self._received += data
        return bool(data)


def answers_in(received: bytes) -> Iterator[int]:
    """Statuses of the responses that `received` consists of. Raises: AssertionError where it is no response."""
    while received:
        top, separator, received = received.partition(b"\r\n\r\n")
        assert separator, top
        first, *lines = top.split(b"\r\n")
        assert first.startswith(b"HTTP/1.1 "), first
        status = int(first.split(b" ")[1])
        lengths = [int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")]
        assert len(lengths) == (0 if status < 200 else 1), top
        yield status
        if status >= 200:
            received = received[lengths[0] :]


def gauge(server: RunningServer, name: str) -> float:
    """The value of the metric with this name and these labels, as /metrics writes them."""
    for line in server.metrics().splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    raise AssertionError(f"/metrics has no {name}")


def assert_alive(server: RunningServer, model: str = "ident") -> None:
    """Lives, answers a good request exactly, and has logged no error."""
    assert server.request("GET", "/v2/health/live", timeout_s=1.0).status == 200
    with RawClient(server.http_port, timeout_s=1.0) as client:
        assert values_of(client.ask(infer([1.5, -2.0, 3.25], model=model))) == [1.5, -2.0, 3.25]
    assert server.process.poll() is None
    assert not [record for record in server.records() if record.get("level") == "error" or "exception" in record]


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """What runs inside must end within `seconds`."""
    started = time.monotonic()
    yield
    took = time.monotonic() - started
    assert took < seconds, f"took {took:.2f} s, more than {seconds} s"
