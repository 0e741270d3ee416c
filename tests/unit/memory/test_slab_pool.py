"""Slabs and their leases: sizes, sharing, the end of a lease, limits and trimming."""

import gc
import random
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.memory import slab_pool
from guepard.memory.heap_arena import HeapArena
from guepard.memory.shared_arena import SharedArena
from guepard.memory.slab_pool import Arena, SlabPool

PAGE = 4_096
MIB = 2**20


def pool(limit_bytes: int = 64 * MIB, **options: Any) -> SlabPool:
    return SlabPool(HeapArena(), limit_bytes=limit_bytes, **options)


def address(view: memoryview) -> int:
    return np.frombuffer(view, np.uint8).ctypes.data


def leased(pool: SlabPool) -> int:
    return pool.statistics().leased_bytes


@pytest.mark.parametrize("make", [HeapArena, lambda: SharedArena.create("test")])
@pytest.mark.parametrize("size", [1, 63, PAGE, PAGE + 1, 100_000, 5 * MIB])
def test_a_lease_is_exactly_as_long_as_asked_writable_and_aligned(make: Callable[[], Arena], size: int) -> None:
    view = SlabPool(make(), limit_bytes=64 * MIB).lease(size)
    assert (view.nbytes, view.format, view.readonly, address(view) % PAGE) == (size, "B", False, 0)
    view[-1] = 7
    assert view[-1] == 7


def test_nothing_is_a_lease_of_nothing() -> None:
    slabs = pool()
    assert slabs.lease(0).nbytes == 0
    assert slabs.statistics().slab_count == 0
    assert slabs.statistics().unpooled_count == 0


@given(st.integers(1, 2**28))
def test_little_of_a_slab_lies_idle(size: int) -> None:
    asked: list[int] = []

    class Measure:
        def grow(self, size_bytes: int) -> memoryview:
            asked.append(size_bytes)
            raise MemoryError

        def shrink(self, memory: memoryview) -> None: ...

    SlabPool(Measure(), limit_bytes=2**40).lease(size)
    (slab,) = asked
    assert slab % PAGE == 0
    assert 0 <= slab - size < max(PAGE, slab / 5)


def test_a_slab_is_used_again_when_its_lease_ends_and_not_before() -> None:
    slabs = pool()
    first, second = slabs.lease(100_000), slabs.lease(100_000)
    place = address(first)
    assert address(second) != place
    del first
    assert address(slabs.lease(98_305)) == place  # another length of the same class
    assert slabs.statistics().slab_count == 2


def _slice_of_array(view: memoryview) -> object:
    return np.frombuffer(view, np.float32)[10:20]


def _reshaped(view: memoryview) -> object:
    return np.frombuffer(view, np.float32).reshape(-1, 2).T[:1]


def _cast_without_copy(view: memoryview) -> object:
    return np.frombuffer(view, np.float32).astype(np.float32, copy=False)


def _slice_of_view(view: memoryview) -> object:
    return view[5:10].cast("B").toreadonly()


def _slice_of_owner(view: memoryview) -> object:
    assert isinstance(view.obj, np.ndarray)
    return view.obj[1:][1:]


@pytest.mark.parametrize("derive", [_slice_of_array, _reshaped, _cast_without_copy, _slice_of_view, _slice_of_owner])
def test_whatever_is_made_from_a_lease_keeps_it(derive: Callable[[memoryview], object]) -> None:
    slabs = pool()
    derived = derive(slabs.lease(100_000))
    assert leased(slabs) > 0
    del derived
    assert leased(slabs) == 0


def test_a_lease_outlives_its_pool() -> None:
    slabs = pool()
    view = slabs.lease(100_000)
    view[:3] = b"abc"
    gone = weakref.ref(slabs)
    del slabs
    gc.collect()
    assert gone() is None
    assert bytes(view[:3]) == b"abc"
    view[99_999] = 1
    del view


def test_no_cycle_keeps_what_was_leased_in_a_pool_that_is_gone() -> None:
    gc.disable()
    try:
        arena = HeapArena()
        slabs = SlabPool(arena, limit_bytes=MIB)
        slabs.lease(PAGE)
        gone = weakref.ref(slabs)
        del slabs
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("is_pool_gone", [False, True])
def test_a_lease_that_outlives_a_closed_pool_takes_its_memory_along(is_pool_gone: bool) -> None:
    grown: list[Any] = []

    class Memory(HeapArena):
        def grow(self, size_bytes: int) -> memoryview:
            memory = super().grow(size_bytes)
            grown.append(weakref.ref(memory))
            return memory

    gc.disable()
    try:
        slabs = SlabPool(Memory(), limit_bytes=MIB)
        view = slabs.lease(PAGE)
        slabs.lease(2 * PAGE)
        slabs.close()
        assert [memory() is None for memory in grown] == [False, True]
        assert slabs.lease(PAGE).nbytes == PAGE
        assert len(grown) == 2
        if is_pool_gone:
            del slabs
            del view
            assert grown[0]() is None
        else:
            del view
            assert slabs.statistics().free_bytes == 0
    finally:
        gc.enable()


class TestLimits:
    def test_what_exceeds_the_limit_is_given_memory_of_its_own(self) -> None:
        slabs = pool(limit_bytes=2 * MIB)
        views = [slabs.lease(MIB) for _ in range(3)]
        views[2][:] = bytes(MIB)
        assert len({address(view) for view in views}) == 3
        assert address(views[2]) % 64 == 0
        assert slabs.statistics() == (2 * MIB, 0, 2, 2, 0, 1)

    def test_what_exceeds_the_largest_slab_is_given_memory_of_its_own(self) -> None:
        slabs = pool(largest_bytes=MIB)
        view = slabs.lease(MIB + 1)
        assert view.nbytes == MIB + 1
        assert slabs.statistics() == (0, 0, 0, 0, 0, 1)

    def test_an_arena_without_memory_is_no_error(self) -> None:
        class Empty:
            def grow(self, size_bytes: int) -> memoryview:
                raise OSError

            def shrink(self, memory: memoryview) -> None: ...

        slabs = SlabPool(Empty(), limit_bytes=MIB)
        assert slabs.lease(PAGE).nbytes == PAGE
        assert slabs.statistics() == (0, 0, 0, 0, 0, 1)

    def test_idle_slabs_make_room_for_another_size_those_first_that_lay_longest(self) -> None:
        slabs = pool(limit_bytes=4 * MIB)
        older, newer = slabs.lease(MIB), slabs.lease(2 * MIB)
        del older
        del newer
        kept = slabs.lease(3 * MIB // 2)
        assert slabs.statistics() == (kept.nbytes, 2 * MIB, 2, 3, 1, 0)

    def test_no_room_is_made_in_vain(self) -> None:
        slabs = pool(limit_bytes=4 * MIB)
        held = slabs.lease(2 * MIB)
        slabs.lease(MIB)  # and back at once
        assert slabs.lease(3 * MIB).nbytes == 3 * MIB
        assert slabs.statistics() == (held.nbytes, MIB, 2, 2, 0, 1)


class TestTrim:
    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        now = [0]
        monkeypatch.setattr(slab_pool, "monotonic_ns", lambda: now[0])
        return now

    def test_idle_slabs_go_and_others_stay(self, clock: list[int]) -> None:
        slabs = pool()
        held = slabs.lease(MIB)
        views = [slabs.lease(PAGE) for _ in range(3)]
        clock[0] = 10
        views.pop()
        clock[0] = 20
        views.clear()
        clock[0] = 25
        assert slabs.trim(10) == PAGE
        assert slabs.statistics() == (held.nbytes, 2 * PAGE, 3, 4, 1, 0)
        assert slabs.trim(5) == 2 * PAGE
        assert slabs.statistics() == (held.nbytes, 0, 1, 4, 3, 0)

    def test_a_slab_in_use_now_and_then_never_is_idle(self, clock: list[int]) -> None:
        slabs = pool()
        for clock[0] in range(0, 100, 9):
            slabs.lease(PAGE)
            assert slabs.trim(10) == 0

    def test_a_trimmed_pool_grows_again(self, clock: list[int]) -> None:
        slabs = pool()
        slabs.lease(PAGE)
        slabs.trim(0)
        slabs.lease(PAGE)[:] = bytes(PAGE)
        assert slabs.statistics() == (0, PAGE, 1, 2, 1, 0)


@given(
    st.lists(st.tuples(st.integers(1, 40_000), st.integers(0, 30)), min_size=1, max_size=40),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_leases_of_several_threads_never_overlap_and_all_come_back(
    steps: list[tuple[int, int]], seed: int, is_shared: bool
) -> None:
    """Each thread leases, marks what it got, hands some of it to the others, and checks the marks when it lets go."""
    slabs = SlabPool(SharedArena.create("test") if is_shared else HeapArena(), limit_bytes=600_000)
    handed: list[tuple[memoryview, int]] = []
    wrong: list[str] = []

    def check(view: memoryview, mark: int) -> None:
        array = np.frombuffer(view, np.uint8)
        if array[0] != mark or array[-1] != mark or not (array == mark).all():
            wrong.append("overlap")

    def work(number: int) -> None:
        draw = random.Random(seed + number)
        own: list[tuple[memoryview, int]] = []
        for size, keep in steps:
            view = slabs.lease(size)
            if view.nbytes != size:
                wrong.append("size")
            mark = draw.randrange(256)
            np.frombuffer(view, np.uint8)[:] = mark
            own.append((view, mark))
            draw.shuffle(own)
            while len(own) > keep:
                if draw.random() < 0.3:
                    handed.append(own.pop())
                else:
                    check(*own.pop())
            if handed and draw.random() < 0.5:
                with suppress(IndexError):  # another thread was quicker
                    check(*handed.pop())
            if draw.random() < 0.1:
                slabs.trim(0)
        for view, mark in own:
            check(view, mark)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for view, mark in handed:
        check(view, mark)
        del view
    handed.clear()
    assert wrong == []
    statistics = slabs.statistics()
    assert statistics.leased_bytes == 0
    assert statistics.free_bytes <= 600_000
    assert statistics.grown_count - statistics.shrunk_count == statistics.slab_count
    slabs.trim(0)
    assert slabs.statistics()[:3] == (0, 0, 0)
