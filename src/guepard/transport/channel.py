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
_READ_BYTES = 65_536

Received = TypeVar("Received")


class ChannelClosed(Exception):
    """The other side has gone."""


class BadFrame(Exception):
    """What came is no frame: whoever sent it cannot be relied on any more."""


class Channel(Generic[Received]):
    """One end. One thread receives; any may send. `receives` is the union of frames that may come.

    Everything blocks: closing the socket, or the other side's end, is what ends a wait.
    """

    def __init__(self, connection: socket.socket, receives: Any) -> None:
        self._socket = connection
        self._decoder = msgspec.msgpack.Decoder(receives, dec_hook=_decode_spec)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_encode_spec)
        self._buffer = bytearray()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, frame: Frame) -> None:
        """Raises: ChannelClosed; TypeError or OverflowError for a value that no frame can hold."""
        body = self._encoder.encode(frame)
        with self._sending:
            try:
                self._socket.sendall(_HEAD.pack(_MARK, len(body)) + body)
            except OSError:
                raise ChannelClosed from None

    def receive(self) -> Received:
        """The next frame. Raises: ChannelClosed, BadFrame."""
        buffer = self._buffer
        while True:
            missing = self._missing()
            if not missing:
                return self._take()
            try:
                data = self._socket.recv(max(missing, _READ_BYTES))
            except OSError:
                raise ChannelClosed from None
            if not data:
                raise ChannelClosed
            buffer += data

    @property
    def has_frame(self) -> bool:
        """Whether `receive` would return without a look at the socket. Raises: BadFrame."""
        return not self._missing()

    def close(self) -> None:
        """Wakes whoever waits on either side."""
        with suppress(OSError):  # the other side was quicker
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _missing(self) -> int:
        """Bytes that must still come before there is a whole frame."""
        buffer = self._buffer
        if len(buffer) < _HEAD.size:
            return _HEAD.size - len(buffer)
        mark, length = _HEAD.unpack_from(buffer)
        if mark != _MARK:
            raise BadFrame(f"it begins with {bytes(buffer[:16])!r}")
        return max(0, _HEAD.size + int(length) - len(buffer))

    def _take(self) -> Received:
        buffer = self._buffer
        _, length = _HEAD.unpack_from(buffer)
        end = _HEAD.size + length
        try:
            frame: Received = self._decoder.decode(bytes(buffer[_HEAD.size : end]))
        except (msgspec.MsgspecError, ValueError, UnicodeDecodeError) as error:
            raise BadFrame(str(error)) from None
        del buffer[:end]
        return frame


def _encode_spec(value: Any) -> Any:
    if isinstance(value, TensorSpec):
        return value.name, value.datatype.name, value.dims, value.optional
    raise TypeError(f"{type(value).__name__} cannot travel to another process")


def _decode_spec(kind: Any, value: Any) -> Any:
    if kind is not TensorSpec:
        raise TypeError(f"no frame holds {kind}")
    name, datatype, dims, optional = value
    return TensorSpec(name, datatype, dims, optional)
