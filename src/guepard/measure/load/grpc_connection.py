"""A connection that slots share: the socket under an `Http2Connection`, from its dial to its end."""

import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from guepard.measure.load import http2_frames as h2
from guepard.measure.load.dial import Dial
from guepard.measure.load.http2_connection import Http2Connection
from guepard.measure.load.http2_frames import ProtocolViolation
from guepard.measure.load.outcomes import GRPC_BASE, End
from guepard.measure.load.poller import READ, WRITE
from guepard.measure.load.records import CONNECTED

if TYPE_CHECKING:
    from guepard.measure.load.grpc_client import GrpcClient, GrpcSlot

_READ_BYTES = 65_536
_UNAVAILABLE = GRPC_BASE + 14


class GrpcConnection:
    """Requests begin once the server's settings have come, as many at once as they allow; others wait here.

    is_usable: new requests may be brought. seats: how many slots bring theirs here. read_ns: when bytes last came.
    ended: requests that ended while bytes were read, and how; they are released together, so that what follows them
    leaves together.
    """

    __slots__ = (
        "_client",
        "_dial",
        "_http2",
        "_owner",
        "_socket",
        "_starting",
        "_unsent",
        "_waiting",
        "_will_flush",
        "ended",
        "is_usable",
        "read_ns",
        "seats",
    )

    def __init__(self, client: "GrpcClient") -> None:
        self.is_usable = True
        self.seats = 0
        self.read_ns = 0
        self.ended: list[tuple[GrpcSlot, int]] = []
        self._client = client
        self._owner = client.owner
        self._http2: Http2Connection[GrpcSlot] = Http2Connection()
        self._waiting: deque[GrpcSlot] = deque()
        self._starting: list[GrpcSlot] = []
        self._socket: socket.socket | None = None
        self._unsent: memoryview | None = None
        self._will_flush = False
        self._dial = Dial(self._owner, client.route, self._connected, self._lost)

    @property
    def capacity(self) -> int:
        """How many slots should have their seat here."""
        most = self._http2.most_streams if self._http2.is_ready else self._client.most_streams
        return max(1, min(most, self._client.streams_per_connection))

    # What slots ask for

    def begin(self, slot: "GrpcSlot") -> None:
        """Send the request of `slot` as soon as possible."""
        http2 = self._http2
        if http2.is_ready and len(http2.streams) < http2.most_streams:
            http2.open(slot, slot.form, slot.message)
            self._starting.append(slot)
            if not self._will_flush:
                self._flush_later()
            return
        if not http2.is_ready:
            slot.flags |= CONNECTED
            slot.sent_ns = slot.sent_ns or time.monotonic_ns()  # waiting for the peer is none of the generator's lag
        elif self.seats > self.capacity:
            self.seats -= 1
            self._client.seat(slot).begin(slot)
            return
        self._waiting.append(slot)

    def cancel(self, slot: "GrpcSlot", code: int = h2.CANCEL) -> None:
        """Forget the request of `slot`, and tell the server if it has begun."""
        if slot.stream_id:
            self._http2.cancel(slot, code)
            if not self._will_flush:
                self._flush_later()
        elif slot in self._waiting:
            self._waiting.remove(slot)

    def doubt(self) -> None:
        """A request has timed out. If nothing at all has come for half as long, this connection is used no more."""
        silent_since_ns = self.read_ns or self._dial.started_ns
        if time.monotonic_ns() - silent_since_ns >= self._client.timeout_ns // 2:
            self._retire()
            self._flush()

    def close(self) -> None:
        """Close the socket, with a last word if it can be said at once."""
        self._hang_up(h2.NO_ERROR)

    # The socket

    def _connected(self, connection: socket.socket) -> None:
        self._socket = connection
        self._owner.poller.add(connection.fileno(), self._ready)
        self._flush()

    def _ready(self, mask: int) -> None:
        if mask & WRITE and self._unsent is not None:
            self._send(self._unsent)
            self._flush()
        if mask & ~WRITE and self._socket is not None:
            self._read()

    def _read(self) -> None:
        connection = self._socket
        assert connection is not None
        self._will_flush = is_open = True
        try:
            while True:
                data = connection.recv(_READ_BYTES)
                is_open = bool(data)
                self.read_ns = time.monotonic_ns()
                self._http2.feed(data)
                if not (isinstance(connection, ssl.SSLSocket) and connection.pending()):
                    break
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            is_open = False
        except ProtocolViolation as violation:
            self._lost(End.MALFORMED, violation.code)
            return
        self._settle()
        if not is_open:
            self._lost(End.RESET)

    def _settle(self) -> None:
        """Do what the bytes that came have made due."""
        http2 = self._http2
        if http2.goaway_after is not None:
            self._retire()
            for slot in http2.take_back(http2.goaway_after):
                self._move(slot)
        self._release_ended()
        if self._waiting and http2.is_ready:
            self._client.most_streams = http2.most_streams
            waiting, self._waiting = self._waiting, deque()
            for slot in waiting:
                self.begin(slot)
        self._flush()

    def _flush_later(self) -> None:
        self._will_flush = True
        self._owner.later(self._flush)

    def _flush(self) -> None:
        """Hand over to the kernel, at once, all that has gathered."""
        self._will_flush = False
        out = self._http2.out
        if out and self._unsent is None and self._socket is not None:
            data = b"".join(out)
            out.clear()
            now = time.monotonic_ns()
            for slot in self._starting:
                slot.sent_ns = slot.sent_ns or now
            self._starting.clear()
            self._send(data)
            if self._http2.is_worn_out:
                self._retire()
        if not (self.is_usable or self._http2.streams or self._waiting):
            self.close()

    def _send(self, data: bytes | memoryview) -> None:
        assert self._socket is not None
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            sent = 0
        except OSError:
            # What the server said before it left is still to be read: it may be a GOAWAY.
            self.is_usable = False
            sent = len(data)
        was_blocked = self._unsent is not None
        if sent == len(data):
            self._unsent = None
            if was_blocked:
                self._owner.poller.change(self._socket.fileno(), READ)
        else:
            self._unsent = memoryview(data)[sent:]
            if not was_blocked:
                self._owner.poller.change(self._socket.fileno(), READ | WRITE)

    # Its end

    def _retire(self) -> None:
        """Take nothing new, and end with the last answer."""
        self.is_usable = False
        waiting, self._waiting = self._waiting, deque()
        for slot in waiting:
            self._move(slot)

    def _move(self, slot: "GrpcSlot") -> None:
        """Have another connection carry a request that this one's server has not taken up; but only once."""
        if slot.has_moved:
            slot.fail(_UNAVAILABLE)
        else:
            first_sent_ns = slot.sent_ns
            slot.restart()
            slot.sent_ns = first_sent_ns
            slot.has_moved = True
            self._client.seat(slot).begin(slot)

    def _lost(self, outcome: int, code: int = h2.NO_ERROR) -> None:
        """End all requests that are under way here. `code` is what the server is told, if it still listens."""
        self.is_usable = False
        self._hang_up(code)
        slots = [*self._http2.take_back(0), *self._waiting]
        self._waiting.clear()
        self._release_ended()
        for slot in slots:
            slot.fail(outcome)

    def _hang_up(self, code: int) -> None:
        self.is_usable = False
        self._client.forget(self)
        self._dial.close()
        if self._socket is not None:
            self._owner.poller.remove(self._socket.fileno())
            if self._unsent is None:
                with suppress(OSError):
                    self._socket.send(h2.goaway_frame(code))
            self._socket.close()
            self._socket = None

    def _release_ended(self) -> None:
        ended, self.ended = self.ended, []
        for slot, outcome in ended:
            self._owner.released(slot, outcome)
