"""Frames over a socket between two processes, each with a mark and its length before it."""

import socket
import struct
import threading
from contextlib import suppress
from typing import Any, Generic, TypeVar

import msgspec

from guepard.core.tensor import TensorSpec
from guepard.transport.frames import Frame

_HEAD = struct.Struct("<4sI")
_MARK = b"GPRD"
LARGEST_BYTES = 2**32 - 1
NOTE_BYTES = 2**24
"""Of a frame where no tensors travel."""

_READ_BYTES = 2**18  # at most at once: a length that is garbage must not have us ask for as much memory

Received = TypeVar("Received")


class ChannelClosed(Exception):
    """The other side has gone."""


class LeftUnread(ChannelClosed):
    """It has gone without having read all that was sent to it. Source: unix(7), ECONNRESET."""


class BadFrame(Exception):
    """What came is no frame: whoever sent it cannot be relied on any more."""


class Channel(Generic[Received]):
    """One end. One thread receives; any may send. `receives` is the union of frames that may come.

    `largest_bytes`: of a frame, either way.

    `send` and `receive` block: closing the socket, or the other side's end, is what ends a wait.
    """

    def __init__(self, connection: socket.socket, receives: Any, largest_bytes: int = LARGEST_BYTES) -> None:
        self._socket = connection
        self._decoder = msgspec.msgpack.Decoder(receives, dec_hook=_decode_spec)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_encode_spec)
        self._largest_bytes = largest_bytes
        self._buffer = bytearray()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, frame: Frame) -> None:
        """Raises: ChannelClosed; TypeError, ValueError or OverflowError for a value that no frame can hold."""
        data = self._encoded(frame)
        with self._sending:
            try:
                self._socket.sendall(data)
            except OSError:
                raise ChannelClosed from None

    def try_send(self, frame: Frame) -> bool:
        """Send a frame of a few bytes if that needs no wait; says so. Raises: ChannelClosed.

        Source: unix_stream_sendmsg of Linux, net/unix/af_unix.c: what is so small goes whole or not at all.
        """
        if not self._sending.acquire(blocking=False):
            return False
        try:
            self._socket.send(self._encoded(frame), socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            raise ChannelClosed from None
        finally:
            self._sending.release()
        return True

    def receive(self) -> Received:
        """The next frame. Raises: ChannelClosed, BadFrame."""
        while (frame := self.take()) is None:
            self._read(0)
        return frame

    def take(self) -> Received | None:
        """The next frame of what has been read; None when no whole one has. Raises: BadFrame."""
        buffer = self._buffer
        if len(buffer) < _HEAD.size:
            return None
        mark, length = _HEAD.unpack_from(buffer)
        if mark != _MARK:
            raise BadFrame(f"it begins with {bytes(buffer[:16])!r}")
        if length > self._largest_bytes:
            raise BadFrame(f"{length} bytes in one frame")
        end = _HEAD.size + length
        if len(buffer) < end:
            return None
        try:
            frame: Received = self._decoder.decode(bytes(memoryview(buffer)[_HEAD.size : end]))
        except Exception as error:  # decoding meets bytes that anything may have written
            raise BadFrame(f"{type(error).__name__}: {error}") from None
        del buffer[:end]
        return frame

    def read(self) -> bool:
        """Read what has come, without waiting. False when nothing had. Raises: ChannelClosed."""
        try:
            self._read(socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        return True

    def is_silent(self) -> bool:
        """Whether there is nothing to receive, not even a part of a frame. Raises: ChannelClosed."""
        return not self._buffer and not self.read()

    def forget(self) -> None:
        """In a process that was forked: leave the channel to the one that it was forked from."""
        self._sending = threading.Lock()  # which another thread may have held
        self._socket.close()

    def close(self) -> None:
        """Wakes whoever waits on either side."""
        with suppress(OSError):  # the other side was quicker
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _encoded(self, frame: Frame) -> bytes:
        body = self._encoder.encode(frame)
        if len(body) > self._largest_bytes:
            raise OverflowError(f"{len(body)} bytes are too many for one frame")
        return _HEAD.pack(_MARK, len(body)) + body

    def _read(self, flags: int) -> None:
        try:
            data = self._socket.recv(_READ_BYTES, flags)
        except BlockingIOError:
            raise
        except ConnectionResetError:
            raise LeftUnread from None
        except OSError:
            raise ChannelClosed from None
        if not data:
            raise ChannelClosed
        self._buffer += data


def _encode_spec(value: Any) -> Any:
    if isinstance(value, TensorSpec):
        return value.name, value.datatype.name, value.dims, value.optional
    raise TypeError(f"{type(value).__name__} cannot travel to another process")


def _decode_spec(kind: Any, value: Any) -> Any:
    if kind is not TensorSpec:
        raise TypeError(f"no frame holds {kind}")
    name, datatype, dims, optional = value
    return TensorSpec(name, datatype, dims, optional)
