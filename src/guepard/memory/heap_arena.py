"""Private memory for a pool, a mapping for each slab."""

import mmap


class HeapArena:
    """An Arena of anonymous mappings: what is given back leaves the process at once."""

    def grow(self, size_bytes: int) -> memoryview:
        return memoryview(mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    def shrink(self, memory: memoryview) -> None:
        mapping = memory.obj
        assert isinstance(mapping, mmap.mmap)
        memory.release()
        mapping.close()  # which lets other threads run meanwhile, as dropping the last reference would not
