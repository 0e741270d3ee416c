"""Memory for a pool that stays where it is, so that devices copy from it by themselves."""

from typing import Protocol

import numpy as np

from guepard.memory.heap_arena import HeapArena


class Pinning(Protocol):
    def pin(self, address: int, size_bytes: int) -> None:
        """Raises: OSError when it may not."""
        ...

    def unpin(self, address: int) -> None: ...


class PinnedArena:
    """An Arena of mappings that are pinned for as long as they live."""

    def __init__(self, pinning: Pinning) -> None:
        self._pinning = pinning
        self._arena = HeapArena()

    def grow(self, size_bytes: int) -> memoryview:
        memory = self._arena.grow(size_bytes)
        try:
            self._pinning.pin(_address(memory), size_bytes)
        except OSError:
            self._arena.shrink(memory)
            raise
        return memory

    def shrink(self, memory: memoryview) -> None:
        self._pinning.unpin(_address(memory))
        self._arena.shrink(memory)


def _address(memory: memoryview) -> int:
    return int(np.frombuffer(memory, np.uint8).ctypes.data)
