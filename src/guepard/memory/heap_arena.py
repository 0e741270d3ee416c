"""Private memory for a pool, a mapping for each slab."""

import mmap
from contextlib import suppress

_HUGE_FROM = 2**22  # as numpy has it for arrays


class HeapArena:
    """An Arena of anonymous mappings: what is given back leaves the process at once."""

    def grow(self, size_bytes: int) -> memoryview:
        mapping = mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if size_bytes >= _HUGE_FROM:
            with suppress(OSError):  # a kernel without huge pages
                mapping.madvise(mmap.MADV_HUGEPAGE)
        return memoryview(mapping)

    def shrink(self, memory: memoryview) -> None:
        mapping = memory.obj
        assert isinstance(mapping, mmap.mmap)
        memory.release()
        mapping.close()  # which lets other threads run meanwhile, as dropping the last reference would not
