"""Memory that is pinned for as long as it lives."""

import pytest

from guepard.memory.pinned_arena import PinnedArena
from guepard.memory.slab_pool import SlabPool

PAGE = 4096


class Pinning:
    def __init__(self, limit_bytes: int = 1 << 30) -> None:
        self.pinned: dict[int, int] = {}
        self.limit_bytes = limit_bytes

    def pin(self, address: int, size_bytes: int) -> None:
        if size_bytes > self.limit_bytes:
            raise OSError("no more")
        self.pinned[address] = size_bytes

    def unpin(self, address: int) -> None:
        del self.pinned[address]


def test_memory_is_pinned_from_its_first_page_to_its_end() -> None:
    pinning = Pinning()
    arena = PinnedArena(pinning)
    memory = arena.grow(4 * PAGE)
    ((address, size),) = pinning.pinned.items()
    assert (address % PAGE, size) == (0, 4 * PAGE)
    memory[:4] = b"abcd"
    arena.shrink(memory)
    assert pinning.pinned == {}


def test_memory_that_cannot_be_pinned_is_given_back() -> None:
    with pytest.raises(OSError, match="no more"):
        PinnedArena(Pinning(PAGE)).grow(2 * PAGE)


def test_a_pool_goes_on_without_what_cannot_be_pinned() -> None:
    pinning = Pinning(limit_bytes=PAGE)
    pool = SlabPool(PinnedArena(pinning), limit_bytes=1 << 20)
    small, large = pool.lease(100), pool.lease(2 * PAGE)
    assert (small.nbytes, large.nbytes) == (100, 2 * PAGE)
    assert len(pinning.pinned) == 1
    assert pool.statistics().unpooled_count == 1
    del small, large
    pool.close()
    assert pinning.pinned == {}
