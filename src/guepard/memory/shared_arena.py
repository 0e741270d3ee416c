"""Memory that other processes map too: one file without a name, handed on as a descriptor.

The file is a memfd. It is sealed against shrinking, since whoever touches a mapping beyond the end of its file dies of
SIGBUS. Where there is no memfd it is a temporary file that has been unlinked: it cannot be sealed, so it must be handed
to trusted processes alone.
"""

import ctypes
import fcntl
import mmap
import os
import tempfile
import weakref
from bisect import bisect_right
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# The file grows by whole chunks, each as large as all before it, so that there are few mappings, each of which holds a
# descriptor. What of a chunk is not used costs no memory.
_CHUNK_STEP = 2**24
_LAST_CHUNK_BYTES = 2**30
_REMOVE_BYTES = 2**22  # at once: other threads wait meanwhile
_NOEXEC_SEAL = 0x8  # MFD_NOEXEC_SEAL of Linux 6.3, which a system may insist on and an older one refuses
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL

_byte_of = ctypes.c_char.from_buffer
_address_of = ctypes.addressof


class _Chunk(NamedTuple):
    """A mapping of the file from `offset` on, which lies at `address` in this process."""

    address: int
    end: int
    offset: int
    mapping: mmap.mmap
    memory: memoryview

    @classmethod
    def map(cls, descriptor: int, offset: int, size_bytes: int) -> "_Chunk":
        mapping = mmap.mmap(descriptor, size_bytes, offset=offset)
        address = _address_of(_byte_of(mapping))
        return cls(address, address + size_bytes, offset, mapping, memoryview(mapping))


class SharedArena:
    """An Arena whose memory a SharedView on the same descriptor sees, in this process or another.

    Ownership: `descriptor` is closed with the arena. It is not inherited unless it is passed on by name, as
    `subprocess.Popen(pass_fds=...)` does.
    """

    def __init__(self, descriptor: int, *, is_sealed: bool) -> None:
        self.descriptor = descriptor
        self.is_sealed = is_sealed
        weakref.finalize(self, os.close, descriptor)
        self._size_bytes = 0
        self._last: _Chunk | None = None  # the one that was mapped last
        self._used_bytes = 0  # of it
        self._spare: dict[int, deque[memoryview]] = {}  # ranges given back, by size
        # By address. Replaced together, so that `offset_of` needs no lock.
        self._places: tuple[list[int], list[_Chunk]] = ([], [])

    @classmethod
    def create(cls, name: str) -> "SharedArena":
        """`name` is what the kernel shows in listings of mappings and descriptors; it need not be unique.

        Raises: OSError when neither memory nor a temporary file can be had.
        """
        descriptor = _memfd(name)
        if descriptor is not None:
            return cls(descriptor, is_sealed=True)
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()), is_sealed=False)

    def grow(self, size_bytes: int) -> memoryview:
        spare = self._spare.get(size_bytes)
        memory = spare.pop() if spare else self._range(size_bytes)
        if not self.is_sealed:  # a full disk must be met here; where a mapping is written, it is SIGBUS
            offset = self.offset_of(memory)
            assert offset is not None
            try:
                os.posix_fallocate(self.descriptor, offset, size_bytes)
            except BaseException:
                self._spare.setdefault(size_bytes, deque()).append(memory)
                raise
        return memory

    def shrink(self, memory: memoryview) -> None:
        address = _address_of(_byte_of(memory))
        chunk = self._chunk_at(address)
        assert chunk is not None
        start = address - chunk.address
        size_bytes = memory.nbytes
        for done in range(0, size_bytes, _REMOVE_BYTES):
            try:
                chunk.mapping.madvise(mmap.MADV_REMOVE, start + done, min(_REMOVE_BYTES, size_bytes - done))
            except OSError:
                break  # a file system that cannot: the pages stay with the file
        self._spare.setdefault(size_bytes, deque()).append(memory)

    def offset_of(self, buffer: NDArray[Any] | memoryview) -> int | None:
        """Where in the file the bytes of `buffer` begin; None when they lie elsewhere or not in one piece.

        Cost: 1 µs; 2 µs for what is not writable.
        """
        try:
            address = _address_of(_byte_of(buffer))  # type: ignore[arg-type]
        except TypeError:  # not writable, or with gaps
            found = _address_of_read_only(buffer)
            if found is None:
                return None
            address = found
        except ValueError:  # empty, or objects
            return None
        chunk = self._chunk_at(address)
        return None if chunk is None else address - chunk.address + chunk.offset

    def _chunk_at(self, address: int) -> _Chunk | None:
        addresses, chunks = self._places
        index = bisect_right(addresses, address)
        if not index:
            return None
        chunk = chunks[index - 1]
        return chunk if address < chunk.end else None

    def _range(self, size_bytes: int) -> memoryview:
        """A part of the file that was never used, within one chunk."""
        last = self._last
        if last is None or self._used_bytes + size_bytes > last.memory.nbytes:
            chunk_bytes = max(min(self._size_bytes, _LAST_CHUNK_BYTES), -(-size_bytes // _CHUNK_STEP) * _CHUNK_STEP)
            offset = self._size_bytes
            os.ftruncate(self.descriptor, offset + chunk_bytes)
            self._size_bytes += chunk_bytes  # also when it cannot be mapped: the file is never made smaller
            last = _Chunk.map(self.descriptor, offset, chunk_bytes)
            addresses, chunks = self._places
            index = bisect_right(addresses, last.address)
            self._places = (
                [*addresses[:index], last.address, *addresses[index:]],
                [*chunks[:index], last, *chunks[index:]],
            )
            self._used_bytes = 0
            self._last = last
        start = self._used_bytes
        self._used_bytes += size_bytes
        return last.memory[start : self._used_bytes]


class SharedView:
    """What another process, or this one, sees of a SharedArena through its descriptor. For one thread.

    Ownership: the descriptor stays the caller's.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._offsets: list[int] = []
        self._parts: list[memoryview] = []
        self._end = 0

    def view(self, offset: int, size_bytes: int) -> memoryview:
        """The bytes that lie there, writable. They were one buffer of the owner's, or part of one.

        Raises: ValueError for what does not lie within the file, or never was one buffer.
        """
        if offset < 0 or size_bytes < 1:
            raise ValueError(f"{size_bytes} bytes at offset {offset} of shared memory: not a range")
        if offset + size_bytes > self._end:
            self._map_growth()
        if offset + size_bytes <= self._end:
            index = bisect_right(self._offsets, offset) - 1
            start = offset - self._offsets[index]
            view = self._parts[index][start : start + size_bytes]
            if view.nbytes == size_bytes:
                return view
        raise ValueError(
            f"{size_bytes} bytes at offset {offset} of shared memory: not within one part of its {self._end} bytes"
        )

    def _map_growth(self) -> None:
        """Map what the file has grown by. It grows by whole chunks, so no buffer of the owner's is cut in two."""
        end = os.fstat(self._descriptor).st_size
        if end > self._end:
            part = memoryview(mmap.mmap(self._descriptor, end - self._end, offset=self._end))
            self._offsets.append(self._end)
            self._parts.append(part)
            self._end = end


def _memfd(name: str) -> int | None:
    """None where the system has no such thing, or refuses it."""
    if not hasattr(os, "memfd_create"):
        return None
    for flags in (_NOEXEC_SEAL, 0):
        try:
            descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
        except OSError:
            continue
        try:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor
    return None


def _address_of_read_only(buffer: NDArray[Any] | memoryview) -> int | None:
    array = np.asarray(buffer)
    return array.ctypes.data if array.flags.c_contiguous else None
