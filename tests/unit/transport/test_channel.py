"""Frames between processes: there and back, cut anywhere, and whatever else may come."""

import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guepard.core.model_config import ModelDescription
from guepard.core.tensor import TensorSpec
from guepard.transport import frames
from guepard.transport.channel import NOTE_BYTES, BadFrame, Channel, ChannelClosed
from guepard.transport.frames import FromWorker, ToWorker

DESCRIPTION = ModelDescription(
    "python",
    "python",
    (TensorSpec("x", "FP32", [-1, 3], optional=True), TensorSpec("t", "BYTES", [])),
    (TensorSpec("y", "BF16", [2]),),
    max_batch_size=8,
    decoupled=True,
)
PLACES = (frames.Place("FP32", (2, 3), 4_096, 24), frames.Place("BYTES", (0,), -1, 0, b""))
TO_WORKER: list[frames.Frame] = [
    frames.Load("python", b"\x80pickle"),
    frames.Execute((*PLACES, None), (frames.RequestNote(2, 2**62),), -1, (1, 2, 3)),
    frames.Execute(
        (), (frames.RequestNote(1, 5, "ü", {"a": [1, None, {"b": 0.5}], "c": 2**64 - 1}, ("y",)),), 64, (), True
    ),
    frames.More(),
    frames.Stop(),
    frames.Execute((), (), -1, (), False, 2**40),
    frames.AskHealth(),
    frames.Terminate(2**40),
    frames.Trim(),
]
FROM_WORKER: list[frames.Frame] = [
    frames.Loaded(DESCRIPTION),
    frames.Refused("no"),
    frames.Result(7, 0, 4_160, PLACES),
    frames.Item(0, 0, ()),
    frames.End(),
    frames.Failed("model_error", "", None, "Traceback", "KeyError"),
    frames.Failed("invalid_argument", "x", 3, ""),
    frames.Health(None),
    frames.Health(("RuntimeError", "unwell")),
    frames.Record("a.b", 20, "text", "", {"n": 1, "f": 0.5, "t": True, "no": None, "s": "ü"}),
]

Pair = tuple[Channel[Any], socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A channel for frames from a process, and the bare socket of that process."""
    mine, theirs = socket.socketpair()
    channel: Channel[Any] = Channel(mine, FromWorker)
    yield channel, theirs
    channel.close()
    theirs.close()


def encoded(frame: frames.Frame) -> bytes:
    """The bytes of `frame` on a socket."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        Channel[Any](mine, FromWorker).send(frame)
        return theirs.recv(2**20)


@pytest.mark.parametrize(
    ("receives", "frame"),
    [(ToWorker, frame) for frame in TO_WORKER] + [(FromWorker, frame) for frame in FROM_WORKER],
    ids=lambda value: type(value).__name__ if isinstance(value, frames.Frame) else "",
)
def test_there_and_back(receives: Any, frame: frames.Frame) -> None:
    mine, theirs = socket.socketpair()
    here, there = Channel[Any](mine, receives), Channel[Any](theirs, receives)
    there.send(frame)
    assert here.receive() == frame
    assert here.is_silent()
    here.close()
    there.close()


def test_cut_anywhere(pair: Pair) -> None:
    channel, theirs = pair
    for frame in FROM_WORKER:
        data = encoded(frame)
        for cut in range(len(data)):
            theirs.sendall(data[:cut])
            while cut and not channel.read():
                pass
            assert channel.take() is None
            assert channel.is_silent() is (cut == 0)
            theirs.sendall(data[cut:])
            assert channel.receive() == frame


def test_several_at_once(pair: Pair) -> None:
    channel, theirs = pair
    theirs.sendall(b"".join(map(encoded, FROM_WORKER)))
    assert [channel.receive() for _ in FROM_WORKER] == FROM_WORKER
    assert channel.is_silent()
    assert not channel.read()


@pytest.mark.parametrize(
    "data",
    [
        b"print() of a model\n",
        b"GPRX\0\0\0\0",
        struct.pack("<4sI", b"GPRD", 3) + b"\xff\xff\xff",
        struct.pack("<4sI", b"GPRD", 0),
        struct.pack("<4sI", b"GPRD", 5) + b"\x91\xa3Lod",  # a tag that is none
        encoded(frames.Trim()),  # the wrong way round
        struct.pack("<4sI", b"GPRD", 10_000) + b"\x91" * 10_000,  # deeper than any frame
        encoded(frames.Loaded(DESCRIPTION)).replace(b"BF16", b"BF17"),
        encoded(frames.Loaded(DESCRIPTION)).replace(b"\x02", b"\xf6"),
    ],
)
def test_what_is_no_frame(pair: Pair, data: bytes) -> None:
    channel, theirs = pair
    theirs.sendall(data)
    with pytest.raises(BadFrame):
        channel.receive()


def test_frames_larger_than_agreed() -> None:
    mine, theirs = socket.socketpair()
    channel: Channel[Any] = Channel(mine, FromWorker, NOTE_BYTES)
    theirs.sendall(struct.pack("<4sI", b"GPRD", NOTE_BYTES + 1))
    with pytest.raises(BadFrame, match=f"{NOTE_BYTES + 1} bytes in one frame"):
        channel.receive()
    with pytest.raises(OverflowError):
        channel.send(frames.Refused("x" * (NOTE_BYTES + 1)))
    channel.close()
    theirs.close()


def test_values_that_no_frame_holds(pair: Pair) -> None:
    channel, theirs = pair
    for value in (object(), 2**70, "\udcff"):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            channel.send(frames.Execute((), (frames.RequestNote(1, 1, None, {"k": value}),), -1, ()))
    channel.send(frames.More())
    assert len(theirs.recv(100)) < 100  # nothing of the others


def test_a_peer_that_goes(pair: Pair) -> None:
    channel, theirs = pair
    theirs.sendall(encoded(frames.End())[:-1])
    theirs.close()
    with pytest.raises(ChannelClosed):
        channel.receive()
    with pytest.raises(ChannelClosed):
        channel.read()
    with pytest.raises(ChannelClosed):
        channel.send(frames.More())


def test_closing_wakes_whoever_waits(pair: Pair) -> None:
    channel, _ = pair
    woken = threading.Event()

    def wait() -> None:
        with pytest.raises(ChannelClosed):
            channel.receive()
        woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    channel.close()
    assert woken.wait(10)
    thread.join()
    channel.close()
    with pytest.raises(ChannelClosed):
        channel.is_silent()


def test_a_fork_forgets_without_ending_the_conversation(pair: Pair) -> None:
    channel, theirs = pair
    copy: Channel[Any] = Channel(socket.socket(fileno=os.dup(channel.fileno())), FromWorker)
    copy._sending.acquire()  # as a thread may have had it when the process was forked
    copy.forget()
    with pytest.raises(ChannelClosed):
        copy.send(frames.More())
    channel.send(frames.More())
    assert theirs.recv(100) == encoded(frames.More())


def test_a_large_frame(pair: Pair) -> None:
    channel, theirs = pair
    data = bytes(range(256)) * 40_000
    place = frames.Place("UINT8", (len(data),), -1, len(data), data)
    sender: Channel[Any] = Channel(theirs, FromWorker)
    thread = threading.Thread(target=sender.send, args=(frames.Result(0, 0, 0, (place,)),))
    thread.start()
    assert channel.receive().outputs == (place,)
    thread.join()


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=40) | st.sampled_from(list(map(encoded, FROM_WORKER))), max_size=6), st.data())
def test_any_bytes_are_frames_or_refused(parts: list[bytes], data: st.DataObject) -> None:
    """Whatever comes, in whatever pieces: frames as they were sent up to the first garbage, and then an error."""
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    mine, theirs = socket.socketpair()
    channel: Channel[Any] = Channel(mine, FromWorker)
    got: list[Any] = []
    try:
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            theirs.sendall(whole[start:end])
            channel.read()
            while (frame := channel.take()) is not None:
                got.append(frame)
    except BadFrame:
        pass
    finally:
        channel.close()
        theirs.close()
    expected = []
    known = {encoded(frame): frame for frame in FROM_WORKER}
    for part in parts:
        if part not in known:
            break
        expected.append(known[part])
    assert got[: len(expected)] == expected


def test_what_cannot_be_sent_at_once_is_left() -> None:
    mine, theirs = socket.socketpair()
    sender: Channel[Any] = Channel(mine, FromWorker)
    receiver: Channel[Any] = Channel(theirs, ToWorker)
    sent = 0
    while sender.try_send(frames.Terminate(sent)):
        sent += 1
        assert sent < 2**20
    assert sent > 100
    assert [receiver.receive() for _ in range(sent)] == [frames.Terminate(number) for number in range(sent)]
    with sender._sending:  # another thread is about to send
        assert not sender.try_send(frames.Trim())
    assert sender.try_send(frames.Trim())
    assert receiver.receive() == frames.Trim()
    receiver.close()
    with pytest.raises(ChannelClosed):
        sender.try_send(frames.Trim())
    assert not sender._sending.locked()
    sender.close()
