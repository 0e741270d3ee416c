"""Slabs in a file that another process maps."""

import errno
import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guepard.memory.shared_arena import SharedArena, SharedView
from guepard.memory.slab_pool import SlabPool

MIB = 2**20


def pool(arena: SharedArena) -> SlabPool:
    return SlabPool(arena, limit_bytes=256 * MIB)


def held_bytes(arena: SharedArena) -> int:
    return os.fstat(arena.descriptor).st_blocks * 512


def refuse(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSYS, "refused")


@pytest.fixture(params=["memfd", "file"])
def arena(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SharedArena:
    if request.param == "file":
        monkeypatch.setattr(os, "memfd_create", refuse)
    arena = SharedArena.create("test")
    assert arena.is_sealed == (request.param == "memfd")
    return arena


# What the other process does: it is handed the descriptor and nothing else, and knows no model and no server.
OTHER = """
import sys
from guepard.memory.shared_arena import SharedView
view = SharedView(int(sys.argv[1]))
for line in sys.stdin:
    offset, size = map(int, line.split())
    try:
        part = view.view(offset, size)
    except ValueError:
        print("refused", flush=True)
        continue
    ends = bytes(part[:1]).hex(), bytes(part[-1:]).hex()
    part[:2] = b"ok"
    print(*ends, flush=True)
"""


def test_another_process_reads_and_writes_what_lies_in_a_lease(arena: SharedArena) -> None:
    slabs = pool(arena)
    command = [sys.executable, "-c", OTHER, str(arena.descriptor)]
    with subprocess.Popen(
        command, pass_fds=[arena.descriptor], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None

        def ask(offset: int, size: int) -> str:
            assert other.stdin is not None
            assert other.stdout is not None
            other.stdin.write(f"{offset} {size}\n")
            return other.stdout.readline().strip()

        views = []
        for size in (100, 20 * MIB, 4_000):  # the second makes the file grow while the other has it mapped
            view = slabs.lease(size)
            view[0], view[-1] = 0xAB, 0xCD
            offset = arena.offset_of(view)
            assert offset is not None
            assert ask(offset, size) == "ab cd"
            assert bytes(view[:2]) == b"ok"
            views.append(view)
        end = os.fstat(arena.descriptor).st_size
        for offset, size in ((end, 1), (end - 1, 2), (-1, 1), (0, -1), (2**63, 2**63)):
            assert ask(offset, size) == "refused"
        other.stdin.close()


def test_a_range_that_never_was_one_buffer_is_refused(arena: SharedArena) -> None:
    view = SharedView(arena.descriptor)
    memory = arena.grow(mmap.PAGESIZE)
    seam = os.fstat(arena.descriptor).st_size
    assert view.view(0, seam).nbytes == seam
    other = arena.grow(2 * seam)
    assert arena.offset_of(other) == seam
    assert view.view(seam, 2 * seam).nbytes == 2 * seam
    with pytest.raises(ValueError, match=rf"2 bytes at offset {seam - 1} of shared memory: not within one part"):
        view.view(seam - 1, 2)
    assert memory.nbytes == mmap.PAGESIZE


@pytest.mark.parametrize(("offset", "size"), [(0, 0), (0, -1), (-1, 1), (-1, 2)])
def test_what_is_no_range_is_refused(offset: int, size: int) -> None:
    arena = SharedArena.create("test")
    view = SharedView(arena.descriptor)
    for _ in range(2):  # before and after there is something to see
        with pytest.raises(ValueError, match=rf"{size} bytes at offset {offset} of shared memory: not a range"):
            view.view(offset, size)
        arena.grow(mmap.PAGESIZE)
        view.view(0, 1)


def test_nobody_can_cut_a_mapping_short() -> None:
    arena = SharedArena.create("test")
    view = pool(arena).lease(100)
    again = os.open(f"/proc/self/fd/{arena.descriptor}", os.O_RDWR)
    try:
        for descriptor in (arena.descriptor, again):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, 0)
    finally:
        os.close(again)
    view[99] = 1


def test_a_system_that_insists_on_sealed_execution_and_one_that_does_not_know_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create, seen = os.memfd_create, []

    def older(name: str, flags: int) -> int:
        seen.append(flags)
        if flags & 0x8:
            raise OSError(errno.EINVAL, "unknown flag")
        return create(name, flags)

    monkeypatch.setattr(os, "memfd_create", older)
    assert SharedArena.create("test").is_sealed
    assert [bool(flags & 0x8) for flags in seen] == [True, False]


def test_without_memfds_and_without_seals_a_file_without_a_name_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr("fcntl.fcntl", refuse)
        unsealed = SharedArena.create("test")
    monkeypatch.delattr(os, "memfd_create")
    missing = SharedArena.create("test")
    for arena in (unsealed, missing):
        assert not arena.is_sealed
        pool(arena).lease(100)[:] = bytes(100)
        assert os.fstat(arena.descriptor).st_nlink == 0
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_met_before_a_mapping_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "memfd_create", refuse)
    slabs = pool(SharedArena.create("test"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        assert slabs.lease(100).nbytes == 100
        assert slabs.statistics().unpooled_count == 1
    assert slabs.arena.offset_of(slabs.lease(100)) == 0  # type: ignore[attr-defined]


def test_a_chunk_that_cannot_be_mapped_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = SharedArena.create("test")
    slabs = pool(arena)
    with monkeypatch.context() as patch:
        patch.setattr(mmap, "mmap", refuse)
        slabs.lease(20 * MIB)
    view = slabs.lease(100)
    assert slabs.statistics().unpooled_count == 1
    view[:] = b"a" * 100
    offset = arena.offset_of(view)
    assert offset is not None
    assert bytes(SharedView(arena.descriptor).view(offset, 100)) == b"a" * 100


def test_the_descriptor_is_not_inherited_and_closes_with_the_arena() -> None:
    arena = SharedArena.create("test")
    descriptor = arena.descriptor
    assert not os.get_inheritable(descriptor)
    view = pool(arena).lease(100)
    del arena
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    view[:] = bytes(100)  # what was leased stays


class TestOffsetOf:
    def test_leases_and_what_is_made_from_them(self, arena: SharedArena) -> None:
        slabs = pool(arena)
        kept = [slabs.lease(30 * MIB), slabs.lease(100), slabs.lease(2 * MIB)]
        assert len({arena.offset_of(view) for view in kept}) == 3
        for view in kept:
            start = arena.offset_of(view)
            assert start is not None
            array = np.frombuffer(view[:96], np.float32).reshape(2, 12)
            assert arena.offset_of(array) == start
            assert arena.offset_of(array[1:]) == start + 48
            array.flags.writeable = False
            assert arena.offset_of(array[1:]) == start + 48
            assert arena.offset_of(view.toreadonly()[8:]) == start + 8

    def test_what_is_not_one_piece_of_the_arena(self, arena: SharedArena) -> None:
        array = np.frombuffer(pool(arena).lease(96), np.float32).reshape(2, 12)
        fixed = array.view()
        fixed.flags.writeable = False
        others = (array[:, ::2], array.T, fixed.T, array[:0], np.zeros(4), np.array([b"x"], object), memoryview(b"x"))
        assert [arena.offset_of(other) for other in others] == [None] * len(others)
        assert SharedArena.create("other").offset_of(array) is None


def test_what_is_trimmed_goes_back_to_the_system_and_is_used_again(arena: SharedArena) -> None:
    slabs = pool(arena)
    kept, idle = slabs.lease(MIB), slabs.lease(10 * MIB)
    kept[:] = b"k" * MIB
    idle[:] = b"i" * 10 * MIB
    before, place = held_bytes(arena), arena.offset_of(idle)
    assert before >= 11 * MIB
    del idle
    slabs.trim(0)
    assert held_bytes(arena) <= before - 10 * MIB
    assert bytes(kept) == b"k" * MIB
    again = slabs.lease(10 * MIB)
    assert arena.offset_of(again) == place
    again[:] = b"a" * 10 * MIB
    assert bytes(kept) == b"k" * MIB


def test_a_file_system_that_cannot_take_pages_back_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_REMOVE", -1)  # which the kernel refuses
    slabs = pool(SharedArena.create("test"))
    slabs.lease(MIB)[:] = b"a" * MIB
    slabs.trim(0)
    slabs.lease(MIB)
    assert slabs.statistics()[2:] == (1, 2, 1, 0)
