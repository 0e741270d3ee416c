"""What is asked of memory for tensors, so that whoever fills it need not know where it lies."""

from typing import Protocol


class BufferPool(Protocol):
    def lease(self, size_bytes: int) -> memoryview:
        """Writable memory of exactly `size_bytes` bytes, with anything in it, aligned to 64 bytes.

        Ownership: it is given back when nobody refers any more to the view, nor to an array or view made from it.
        """
        ...
