"""Memory that is used again: slabs of a few sizes, each lent to one user at a time.

Fresh memory is dear: the kernel clears each page when it is first touched. A slab pays for that once.

A slab is lent as a numpy array over its range, of which the user gets the memoryview. Whatever is made from the view
refers to it, so when that array dies nobody can reach the slab any more. A weak reference tells.
"""

import mmap
import threading
from collections import deque
from contextlib import suppress
from time import monotonic_ns
from typing import Any, Protocol
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from guepard.core.buffers import PoolStatistics

_PAGE_SHIFT = mmap.PAGESIZE.bit_length() - 1
# Slabs are 1, 2, 3 or 4 pages, then 5, 6, 7 or 8 times a power of two of them: at most a fifth of a slab lies idle, or
# less than a page.
_STEP_BITS = 3
_ALIGNMENT = 64
_NEVER = 2**63
_NOWHERE: "deque[_Slab]" = deque(maxlen=0)
"""Where slabs of a closed pool go, to be gone: in a list of its own a slab would hold itself."""

_BYTE = np.dtype(np.uint8)
_frombuffer = np.frombuffer


class Arena(Protocol):
    """Where a pool's memory comes from and goes to. Called by one thread at a time."""

    def grow(self, size_bytes: int) -> memoryview:
        """`size_bytes` writable bytes that begin on a page. Raises: OSError, MemoryError when there are none."""
        ...

    def shrink(self, memory: memoryview) -> None:
        """Take back what `grow` gave, which nobody refers to any more, and let the system have its pages."""
        ...


class _Slab:
    """`lease` is None while nobody has it, and `free` where it then lies."""

    __slots__ = ("free", "idle_since", "lease", "memory")

    def __init__(self, memory: memoryview, free: "deque[_Slab]") -> None:
        self.memory = memory
        self.free = free
        self.lease: _Lease | None = None
        self.idle_since = 0


class _Lease(ref[NDArray[Any]]):
    __slots__ = ("slab",)

    slab: _Slab


def _end(lease: _Lease) -> None:
    """The last reference is gone, on whichever thread that was. Takes no lock: it may be called within any code."""
    slab = lease.slab
    slab.lease = None
    slab.idle_since = monotonic_ns()
    slab.free.append(slab)


class SlabPool:
    """A BufferPool over the slabs of an arena, for all threads.

    It holds slabs of at most `limit_bytes`, leased or free, none of more than `largest_bytes`. What does not fit is
    given memory of its own and counted. Slabs stay until `trim` finds them idle, or until their room is needed for
    another size.

    Ownership: leases may outlive the pool.
    Cost: about 1 µs for a lease and its end, whatever its size; a slab that is new costs its pages.
    """

    def __init__(self, arena: Arena, *, limit_bytes: int, largest_bytes: int | None = None) -> None:
        self.arena = arena
        self.limit_bytes = limit_bytes
        self._largest_bytes = limit_bytes if largest_bytes is None else largest_bytes
        self._lock = threading.Lock()  # for growth and shrinking; leases come and go without it
        # By their pages. The slab used last is at the right end, the one that has lain idle for longest at the left.
        self._free: dict[int, deque[_Slab]] = {}
        self._slabs: set[_Slab] = set()  # a slab and its lease hold each other; this holds both
        self._held_bytes = 0
        self._grown_count = 0
        self._shrunk_count = 0
        self._unpooled_count = 0

    def lease(self, size_bytes: int) -> memoryview:
        pages = (size_bytes - 1) >> _PAGE_SHIFT
        shift = pages.bit_length() - _STEP_BITS
        pages = ((pages >> shift) + 1) << shift if shift > 0 else pages + 1
        try:
            slab = self._free[pages].pop()
        except (KeyError, IndexError):
            grown = self._grow(pages) if size_bytes > 0 else None
            if grown is None:
                return _plain(size_bytes)
            slab = grown
        # Not a slice of a common array: its own slices would then refer to that array and no longer to the lease.
        array = _frombuffer(slab.memory, _BYTE, size_bytes)
        slab.lease = lease = _Lease(array, _end)
        lease.slab = slab
        return array.data

    def trim(self, idle_ns: int) -> int:
        with self._lock:
            held_bytes = self._held_bytes
            latest = monotonic_ns() - idle_ns
            for free in self._free.values():
                while (slab := _coldest(free)) is not None:
                    if slab.idle_since > latest:
                        free.appendleft(slab)
                        break
                    self._discard(slab)
            return held_bytes - self._held_bytes

    def close(self) -> None:
        """Let go of all memory: of what is free now, and of each lease with its end. Later leases have their own."""
        with self._lock:
            for slab in self._slabs:
                slab.free = _NOWHERE
            self._largest_bytes = 0
        self.trim(0)

    def statistics(self) -> PoolStatistics:
        """A reading that may be off by the leases that begin and end meanwhile."""
        with self._lock:
            free_bytes = self._free_bytes()
            return PoolStatistics(
                leased_bytes=self._held_bytes - free_bytes,
                free_bytes=free_bytes,
                slab_count=len(self._slabs),
                grown_count=self._grown_count,
                shrunk_count=self._shrunk_count,
                unpooled_count=self._unpooled_count,
            )

    def _grow(self, pages: int) -> _Slab | None:
        """A new slab, or None where there is no room for it."""
        size_bytes = pages << _PAGE_SHIFT
        with self._lock:
            memory = None
            if size_bytes <= self._largest_bytes and self._make_room(size_bytes):
                with suppress(OSError, MemoryError):
                    memory = self.arena.grow(size_bytes)
            if memory is None:
                self._unpooled_count += 1
                return None
            free = self._free.get(pages)
            if free is None:
                free = self._free[pages] = deque()
            slab = _Slab(memory, free)
            self._slabs.add(slab)
            self._held_bytes += size_bytes
            self._grown_count += 1
            return slab

    def _make_room(self, size_bytes: int) -> bool:
        """Let go of free slabs of other sizes until one of `size_bytes` is within the limit; of none if that fails."""
        excess_bytes = self._held_bytes + size_bytes - self.limit_bytes
        if excess_bytes > self._free_bytes():
            return False
        while self._held_bytes + size_bytes > self.limit_bytes:
            slab = _coldest(min(self._free.values(), key=_idle_since))
            if slab is None:
                return False
            self._discard(slab)
        return True

    def _free_bytes(self) -> int:
        return sum([len(free) * pages for pages, free in self._free.items()]) << _PAGE_SHIFT

    def _discard(self, slab: _Slab) -> None:
        memory = slab.memory
        self._slabs.remove(slab)
        self._held_bytes -= memory.nbytes
        self._shrunk_count += 1
        del slab
        self.arena.shrink(memory)


def _coldest(free: deque[_Slab]) -> _Slab | None:
    try:
        return free.popleft()
    except IndexError:
        return None


def _idle_since(free: deque[_Slab]) -> int:
    try:
        return free[0].idle_since
    except IndexError:
        return _NEVER


def _plain(size_bytes: int) -> memoryview:
    array = np.empty(size_bytes + _ALIGNMENT, _BYTE)
    start = -array.ctypes.data % _ALIGNMENT
    return array[start : start + size_bytes].data
