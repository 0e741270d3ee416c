"""Regions over real objects in /dev/shm, and everything that a client can do to them."""

import os
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guepard.core.errors import GuepardError, InputError, NotFound, Overloaded, PermissionDenied
from guepard.transport.shared_memory import SharedMemory
from tests.services.shared_objects import FOLDER, PREFIX, SharedObject, unique_name

SIZE = 64


@pytest.fixture
def shared() -> Iterator[SharedMemory]:
    shared = SharedMemory([PREFIX])
    yield shared
    shared.unregister(None)


@pytest.fixture
def piece() -> Iterator[SharedObject]:
    with SharedObject(SIZE) as piece:
        piece.put(bytes(range(SIZE)))
        yield piece


@pytest.fixture
def other_path() -> Iterator[Path]:
    """A free name below /dev/shm, for what is no plain file."""
    path = FOLDER / unique_name()
    yield path
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def refusal(call: Any, *arguments: Any) -> GuepardError:
    with pytest.raises(GuepardError) as caught:
        call(*arguments)
    assert str(FOLDER) not in str(caught.value)
    return caught.value


# Reading and writing


def test_a_region_is_a_window_on_its_object(shared: SharedMemory, piece: SharedObject) -> None:
    shared.register("r", piece.key, 16, 32)
    assert bytes(shared.read("r", 0, 32)) == bytes(range(16, 48))
    assert bytes(shared.read("r", 30, 2)) == bytes([46, 47])
    shared.write("r", 1, b"\xff\xfe")
    assert piece.get(4, 16) == b"\x10\xff\xfe\x13"


def test_a_slash_before_the_key_is_the_same_key(shared: SharedMemory, piece: SharedObject) -> None:
    shared.register("r", f"/{piece.key}", 0, SIZE)
    assert bytes(shared.read("r", 0, 1)) == b"\0"
    SharedMemory([f"/{PREFIX}"]).register("r", piece.key, 0, SIZE)


def test_what_was_read_is_nobody_else_s(shared: SharedMemory, piece: SharedObject) -> None:
    shared.register("r", piece.key, 0, SIZE)
    copy = shared.read("r", 0, SIZE)
    piece.put(b"\xff" * SIZE)
    piece.truncate(0)
    assert bytes(copy) == bytes(range(SIZE))
    assert copy.readonly


def test_nothing_at_all_can_be_read_and_written(shared: SharedMemory, piece: SharedObject) -> None:
    shared.register("r", piece.key, 0, SIZE)
    assert bytes(shared.read("r", SIZE, 0)) == b""
    shared.write("r", SIZE, b"")


@pytest.mark.parametrize(("offset", "size"), [(0, SIZE + 1), (SIZE, 1), (1, SIZE), (-1, 2), (2**62, 2**62), (0, 2**63)])
def test_what_lies_outside_a_region_is_not_touched(
    shared: SharedMemory, piece: SharedObject, offset: int, size: int
) -> None:
    shared.register("r", piece.key, 0, SIZE)
    for call in (shared.check, shared.read):
        assert "shared memory region 'r' has 64 bytes" in str(refusal(call, "r", offset, size))
    if size <= SIZE + 1:
        refusal(shared.write, "r", offset, bytes(size))
    assert piece.get(SIZE + 1) == bytes(range(SIZE))


def test_a_region_ends_where_it_was_registered_to_end(shared: SharedMemory, piece: SharedObject) -> None:
    shared.register("r", piece.key, 0, 32)
    piece.truncate(4_096)
    refusal(shared.read, "r", 0, 33)
    refusal(shared.write, "r", 32, b"\xff")
    assert piece.get(1, 32) == b"\x20"


@pytest.mark.parametrize("length", [0, 1, SIZE - 1])
def test_an_object_cut_short_is_an_error_and_never_a_signal(
    shared: SharedMemory, piece: SharedObject, length: int
) -> None:
    shared.register("r", piece.key, 0, SIZE)
    piece.truncate(length)
    for error in (refusal(shared.read, "r", 0, SIZE), refusal(shared.write, "r", 0, bytes(SIZE))):
        assert isinstance(error, InputError)
        assert "'r'" in str(error)
        assert f"truncated to {length} bytes" in str(error)
    assert piece.path.stat().st_size == length
    piece.truncate(SIZE)
    assert len(shared.read("r", 0, SIZE)) == SIZE


def test_an_object_without_a_name_lives_on(shared: SharedMemory, piece: SharedObject) -> None:
    shared.register("r", piece.key, 0, SIZE)
    piece.path.unlink()
    shared.write("r", 0, b"\xff")
    assert bytes(shared.read("r", 0, 2)) == b"\xff\x01"


def test_regions_of_one_object_are_regions_of_their_own(shared: SharedMemory, piece: SharedObject) -> None:
    shared.register("a", piece.key, 0, 32)
    shared.register("b", piece.key, 32, 32)
    shared.unregister("a")
    assert bytes(shared.read("b", 0, 1)) == b"\x20"


@pytest.mark.timeout(30)
def test_whoever_is_reading_never_gets_another_object(shared: SharedMemory) -> None:
    """The number of a descriptor that is closed under a reader goes to whatever is opened next."""
    size = 16 << 20
    with SharedObject(size) as ones, SharedObject(size) as twos:
        ones.put(b"\1" * size)
        twos.put(b"\2" * size)
        for _ in range(10):
            shared.register("r", ones.key, 0, size)
            begun = threading.Event()
            seen: set[int] = set()

            def read(begun: threading.Event = begun, seen: set[int] = seen) -> None:
                begun.set()
                try:
                    seen.update(np.unique(np.frombuffer(shared.read("r", 0, size), np.uint8)).tolist())
                except NotFound:
                    seen.add(1)  # unregistered before the read began

            reader = threading.Thread(target=read)
            reader.start()
            begun.wait()
            shared.unregister("r")
            shared.register("other", twos.key, 0, size)
            reader.join()
            shared.unregister("other")
            assert seen == {1}


# Registering


def test_status_tells_what_was_registered(shared: SharedMemory, piece: SharedObject) -> None:
    assert shared.status(None) == {}
    shared.register("a", piece.key, 0, 8)
    shared.register("b", f"/{piece.key}", 8, 16)
    a = {"name": "a", "key": piece.key, "offset": 0, "byte_size": 8}
    b = {"name": "b", "key": f"/{piece.key}", "offset": 8, "byte_size": 16}
    assert shared.status(None) == {"a": a, "b": b}
    assert shared.status("b") == {"b": b}
    assert isinstance(refusal(shared.status, "c"), NotFound)


def test_a_name_is_given_once(shared: SharedMemory, piece: SharedObject) -> None:
    shared.register("r", piece.key, 0, SIZE)
    for byte_size in (SIZE, 8):
        assert "'r' already in manager" in str(refusal(shared.register, "r", piece.key, 0, byte_size))
    shared.unregister("r")
    shared.register("r", piece.key, 0, 8)
    assert shared.status("r")["r"]["byte_size"] == 8


def test_unregistering_what_is_not_there_does_nothing(shared: SharedMemory, piece: SharedObject) -> None:
    shared.unregister("r")
    shared.register("r", piece.key, 0, SIZE)
    shared.unregister(None)
    assert shared.status(None) == {}
    for call in (shared.check, shared.read):
        assert isinstance(refusal(call, "r", 0, 1), NotFound)
    assert isinstance(refusal(shared.write, "r", 0, b"a"), NotFound)


@pytest.mark.parametrize("name", ["", "a" * 257, "a\n", "a\0", "\ud800", 7, None])
def test_names_of_regions(shared: SharedMemory, piece: SharedObject, name: object) -> None:
    assert isinstance(refusal(shared.register, name, piece.key, 0, SIZE), InputError)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        ".",
        "..",
        "//x",
        "../etc/passwd",
        f"../shm/{PREFIX}",
        f"{PREFIX}a/b",
        f"{PREFIX}/../x",
        f"/{PREFIX}/",
        f"{PREFIX}\0",
        f"{PREFIX}\n",
        f"{PREFIX}\x7f",
        f"{PREFIX}\ud800",
        PREFIX + "a" * 255,
        7,
        None,
        ["x"],
    ],
)
def test_a_key_is_one_name(shared: SharedMemory, key: object) -> None:
    error = refusal(shared.register, "r", key, 0, 1)
    assert isinstance(error, InputError)
    assert str(error).startswith("key")


@pytest.mark.parametrize("prefixes", [["other-"], [f"{PREFIX}other"], ["x", "y"]])
def test_only_names_with_an_allowed_prefix(piece: SharedObject, prefixes: list[str]) -> None:
    for key in (piece.key, f"/{piece.key}"):
        error = refusal(SharedMemory(prefixes).register, "r", key, 0, SIZE)
        assert isinstance(error, PermissionDenied)
        assert "--allow-client-shm" in str(error)
    SharedMemory([*prefixes, PREFIX]).register("r", piece.key, 0, SIZE)


def test_another_s_object_is_not_even_looked_for(shared: SharedMemory) -> None:
    """The answer is the same whether it exists or not."""
    with SharedObject(8, "guepard-other-") as piece:
        there = str(refusal(shared.register, "r", piece.key, 0, 8))
        assert str(refusal(shared.register, "r", "guepard-other-0", 0, 8)) == there.replace(
            piece.key, "guepard-other-0"
        )


@pytest.mark.parametrize(
    ("offset", "byte_size", "reason"),
    [
        (-1, 8, "offset: expected a whole number of 0 or more, got -1"),
        (1.0, 8, "offset: expected a whole number of 0 or more, got 1.0"),
        (True, 8, "offset: expected a whole number of 0 or more, got True"),
        ("0", 8, "offset: expected a whole number of 0 or more, got '0'"),
        (2**63, 8, "offset: expected a whole number of 0 or more, got 9223372036854775808"),
        (0, 0, "byte_size: expected a whole number of 1 or more, got 0"),
        (0, -8, "byte_size: expected a whole number of 1 or more, got -8"),
        (0, None, "byte_size: expected a whole number of 1 or more, got None"),
        (0, 8.5, "byte_size: expected a whole number of 1 or more, got 8.5"),
        (0, 2**64, "byte_size: expected a whole number of 1 or more, got 18446744073709551616"),
        (0, SIZE + 1, "holds 64 bytes; offset 0 and byte_size 65 reach beyond them"),
        (SIZE, 1, "holds 64 bytes"),
        (2**63 - 1, 2**63 - 1, "holds 64 bytes"),
    ],
)
def test_a_region_lies_within_its_object(
    shared: SharedMemory, piece: SharedObject, offset: object, byte_size: object, reason: str
) -> None:
    before = descriptors()
    error = refusal(shared.register, "r", piece.key, offset, byte_size)
    assert isinstance(error, InputError)
    assert reason in str(error)
    assert shared.status(None) == {}
    assert descriptors() <= before


def test_links_are_not_followed(shared: SharedMemory, piece: SharedObject, other_path: Path) -> None:
    for target in (piece.path, Path("/etc/passwd"), Path("/dev/shm/missing")):
        other_path.symlink_to(target)
        assert "not a shared memory object" in str(refusal(shared.register, "r", other_path.name, 0, 1))
        other_path.unlink()


@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "nothing"])
def test_what_is_no_plain_file_is_refused(shared: SharedMemory, other_path: Path, kind: str) -> None:
    before = descriptors()
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "folder":
            other_path.mkdir()
        elif kind == "pipe":
            os.mkfifo(other_path)
        elif kind == "socket":
            listener.bind(str(other_path))
        expected = "there is no such shared memory object" if kind == "nothing" else "not a shared memory object"
        assert expected in str(refusal(shared.register, "r", other_path.name, 0, 1))
    assert descriptors() <= before  # other things in this process may have been let go of


# Bounds


def test_descriptors_come_back(shared: SharedMemory, piece: SharedObject) -> None:
    before = descriptors()
    for _ in range(300):
        for name in "abc":
            shared.register(name, piece.key, 0, SIZE)
        refusal(shared.register, "a", piece.key, 0, SIZE)
        shared.unregister("a")
        refusal(shared.read, "a", 0, 1)
        shared.unregister(None)
    assert descriptors() <= before  # other things in this process may have been let go of


def test_there_are_only_so_many_regions(shared: SharedMemory, piece: SharedObject) -> None:
    descriptor_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 1_024 if descriptor_limit == resource.RLIM_INFINITY else min(1_024, descriptor_limit // 4)
    for number in range(limit):
        shared.register(str(number), piece.key, 0, SIZE)
    error = refusal(shared.register, "one more", piece.key, 0, SIZE)
    assert isinstance(error, Overloaded)
    assert str(limit) in str(error)
    shared.unregister("0")
    shared.register("one more", piece.key, 0, SIZE)


def test_a_few_descriptors_leave_room_for_connections(piece: SharedObject) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = 400 + 2 * descriptors()
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        shared = SharedMemory([PREFIX])
        for number in range(few // 4):
            shared.register(str(number), piece.key, 0, SIZE)
        assert isinstance(refusal(shared.register, "one more", piece.key, 0, SIZE), Overloaded)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
