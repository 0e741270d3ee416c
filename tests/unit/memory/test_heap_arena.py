"""Mappings of a pool's own."""

import mmap
from pathlib import Path

import pytest

from guepard.memory.heap_arena import HeapArena

MIB = 2**20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_what_is_given_back_leaves_the_process_at_once() -> None:
    arena = HeapArena()
    memory = arena.grow(64 * MIB)
    memory[:] = b"a" * len(memory)
    before = resident_bytes()
    arena.shrink(memory)
    assert resident_bytes() < before - 48 * MIB


def test_huge_pages_are_asked_for_where_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class Mapping(mmap.mmap):
        def madvise(self, option: int, *_: int) -> None:
            asked.append((len(self), option))
            raise OSError("no huge pages here")

    monkeypatch.setattr(mmap, "mmap", Mapping)
    arena = HeapArena()
    for size in (MIB, 4 * MIB):
        assert arena.grow(size).nbytes == size
    assert asked == [(4 * MIB, mmap.MADV_HUGEPAGE)]
