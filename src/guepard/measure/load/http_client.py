"""HTTP/1.1 over non-blocking sockets, one request at a time on each connection.

An answer of the simplest form that came in one read, which is what an inference server sends, is judged by two searches
in its bytes. Anything else goes to `http_reply.py`. On a machine where a bare loop of `recv` and `send` takes 8 µs a
request, this road adds about 3 µs.
"""

import re
import socket
import ssl
import time

import httptools

from guepard.measure.load.client import Address, SlotOwner
from guepard.measure.load.dial import Dial, Route
from guepard.measure.load.event_stream import EventStream, StreamRule
from guepard.measure.load.http_reply import HttpReply
from guepard.measure.load.journal import SAMPLE_EVERY
from guepard.measure.load.outcomes import End
from guepard.measure.load.plan import LoadPlan
from guepard.measure.load.poller import READ, WRITE
from guepard.measure.load.records import CONNECTED
from guepard.measure.load.tls import tls_context

_READ_BYTES = 65_536
"""Above 128 KiB the allocator maps and unmaps memory for each read, which took 20 µs."""
_FRAMING = re.compile(rb"(?i)\r\n(content-length|transfer-encoding|connection):[ \t]*([^\r\n]*)")
_TIMING = re.compile(rb"(?i)\r\nserver-timing:[ \t]*([^\r\n]*)")


class HttpClient:
    """Opens slots to one address. `address` is what `socket.connect` takes, its family beside it."""

    def __init__(self, plan: LoadPlan, owner: SlotOwner, family: int, address: Address) -> None:
        endpoint = plan.endpoint
        tls = tls_context(endpoint) if endpoint.tls else None
        self.owner = owner
        self.route = Route(family, address, tls, endpoint.host_name or endpoint.host, "")
        self.is_head = plan.is_head
        self.expect = re.compile(plan.reply.expect.encode()) if plan.reply.expect else None
        self.stream_rule = StreamRule(plan.reply) if plan.reply.events else None
        self.keeps_timing = plan.server_timing
        self.is_simple = not (plan.is_head or plan.reply.events)
        self.answers = 0
        self._slots: list[HttpSlot] = []

    def open_slot(self) -> "HttpSlot":
        slot = HttpSlot(self)
        self._slots.append(slot)
        return slot

    def close(self) -> None:
        for slot in self._slots:
            slot.disconnect()


class HttpSlot:
    """One connection, opened again when the server has closed it."""

    __slots__ = (
        "_body",
        "_client",
        "_data",
        "_dial",
        "_doom",
        "_events",
        "_fd",
        "_first_ns",
        "_flags",
        "_last_piece_ns",
        "_owner",
        "_payload",
        "_pieces",
        "_received",
        "_reply",
        "_sent",
        "_sent_ns",
        "_socket",
        "intended_ns",
    )

    def __init__(self, client: HttpClient) -> None:
        self.intended_ns = 0
        self._client = client
        self._owner = client.owner
        self._dial: Dial | None = None
        self._socket: socket.socket | None = None
        self._fd = -1
        self._reply: HttpReply | None = None
        self._events: EventStream | None = None
        self._body: list[bytes] = []
        self._data = b""
        self._doom = 0
        self._sent = 0
        self._sent_ns = 0
        self._first_ns = 0
        self._received = 0
        self._pieces = 0
        self._last_piece_ns = 0
        self._payload = 0
        self._flags = 0

    def send(self, data: bytes, payload: int, intended_ns: int, flags: int) -> None:
        self.intended_ns = intended_ns
        self._payload = payload
        self._data = data
        self._received = 0
        connection = self._socket
        if connection is None:
            self._flags = flags | CONNECTED
            self._dial = Dial(self._owner, self._client.route, self._connected, self._not_connected)
            self._sent_ns = self._dial.started_ns
            return
        self._flags = flags
        self._sent_ns = time.monotonic_ns()
        try:
            sent = connection.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        except OSError:
            self._fail_later(End.RESET)
            return
        self._sent = sent
        if sent != len(data):
            self._owner.poller.change(self._fd, READ | WRITE)
            self._owner.poller.hand_over(self._fd, self._sending)

    def abandon(self, outcome: int) -> None:
        self._fail(outcome)

    def disconnect(self) -> None:
        if self._dial is not None:
            self._dial.close()
            self._dial = None
        if self._socket is not None:
            self._owner.poller.remove(self._fd)
            self._socket.close()
            self._socket = None

    def _connected(self, connection: socket.socket) -> None:
        self._dial = None
        self._socket = connection
        self._fd = connection.fileno()
        self._sent = 0
        self._owner.poller.add(self._fd, self._sending, READ | WRITE)
        self._sending(WRITE)

    def _not_connected(self, outcome: int) -> None:
        self._dial = None
        self._fail(outcome)

    # One request and its answer

    def _sending(self, mask: int) -> None:
        """The kernel did not take the whole request at once. The answer may begin before its end."""
        assert self._socket is not None
        try:
            self._sent += self._socket.send(memoryview(self._data)[self._sent :])
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError:
            self._fail(End.RESET)
            return
        if self._sent == len(self._data):
            self._owner.poller.change(self._fd, READ)
            self._owner.poller.hand_over(self._fd, self._readable)
        elif mask & READ:
            self._readable(mask)

    def _readable(self, mask: int) -> None:
        connection = self._socket
        assert connection is not None
        try:
            data = connection.recv(_READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            self._fail(End.RESET)
            return
        if not data:
            self._closed()
            return
        if not self.intended_ns:
            # Bytes that nobody asked for: whatever they are, the next answer could not be told from them.
            self.disconnect()
            return
        self._received += len(data)
        client = self._client
        if self._reply is None and client.is_simple and self._sent == len(self._data):
            end = data.find(b"\r\n\r\n")
            framing = _FRAMING.findall(data, 0, end + 2) if end >= 0 else ()
            if len(framing) == 1 and data.startswith(b"HTTP/1.1 "):
                (name, value), status = framing[0], data[9:12]
                if (
                    len(name) == 14
                    and value.isdigit()
                    and end + 4 + int(value) == len(data)
                    and status.isdigit()
                    and (code := int(status)) >= 200
                    and code not in (204, 304)
                ):
                    self._first_ns = time.monotonic_ns()
                    if client.expect is not None and 200 <= code < 300 and not client.expect.search(data, end + 4):
                        code = End.UNEXPECTED_CONTENT
                    client.answers += 1
                    if client.keeps_timing and not client.answers % SAMPLE_EVERY:
                        found = _TIMING.search(data, 0, end + 2)
                        if found:
                            self._owner.journal.timings.append(found[1])
                    self._end(code, self._first_ns, 0)
                    return
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        reply = self._reply
        if reply is None:
            rule = self._client.stream_rule
            self._events = EventStream(rule) if rule else None
            self._body.clear()
            self._first_ns = self._pieces = 0
            self._reply = reply = HttpReply(self._on_body, is_head=self._client.is_head)
        try:
            reply.feed(data)
        except httptools.HttpParserError:
            self._fail(End.MALFORMED)
            return
        if reply.is_complete:
            self._complete(reply, reply.keeps_connection)

    def _on_body(self, body: bytes) -> None:
        now = time.monotonic_ns()
        if self._client.expect is not None:
            self._body.append(body)
        if self._events is None:
            self._first_ns = self._first_ns or now
            return
        pieces = self._events.feed(body)
        if not pieces:
            return
        if self._pieces:
            self._owner.journal.gaps.extend((now, now - self._last_piece_ns))
        else:
            self._first_ns = now
        for _ in range(pieces - 1):
            # Pieces that came together came one after the other with nothing between.
            self._owner.journal.gaps.extend((now, 0))
        self._pieces += pieces
        self._last_piece_ns = now

    def _complete(self, reply: HttpReply, keeps_connection: bool) -> None:
        done_ns = time.monotonic_ns()  # what is looked for in the answer is not the server's time
        outcome = reply.status
        if 200 <= outcome < 300:
            if self._events is not None and not self._events.is_complete:
                outcome = End.BROKEN_STREAM
            elif self._client.expect is not None and not self._client.expect.search(b"".join(self._body)):
                outcome = End.UNEXPECTED_CONTENT
        self._client.answers += 1
        if reply.server_timing and self._client.keeps_timing and not self._client.answers % SAMPLE_EVERY:
            self._owner.journal.timings.append(reply.server_timing)
        if not keeps_connection or self._sent != len(self._data):
            self.disconnect()
        self._end(outcome, done_ns, self._pieces)

    def _closed(self) -> None:
        if not self.intended_ns:
            self.disconnect()
        elif self._reply is not None and self._reply.ended():
            self._complete(self._reply, keeps_connection=False)
        else:
            self._fail(End.CLOSED_EARLY if self._received else End.RESET)

    def _fail(self, outcome: int) -> None:
        self._doom = 0
        self.disconnect()
        self._end(outcome, time.monotonic_ns(), self._pieces if self._events is not None else 0)

    def _fail_later(self, outcome: int) -> None:
        self._doom = outcome
        self._owner.later(self._meet_doom)

    def _meet_doom(self) -> None:
        if self._doom:  # it may have been abandoned meanwhile
            self._fail(self._doom)

    def _end(self, outcome: int, done_ns: int, pieces: int) -> None:
        intended_ns = self.intended_ns
        self._owner.journal.rows.extend(
            (
                intended_ns,
                self._sent_ns,
                self._first_ns or done_ns,
                done_ns,
                outcome,
                self._received,
                pieces,
                self._payload,
                self._flags,
            )
        )
        self.intended_ns = 0
        self._reply = None
        self._events = None
        self._first_ns = 0
        self._owner.released(self, outcome)
