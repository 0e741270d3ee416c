"""What is asked of memory for tensors, so that whoever fills it need not know where it lies."""

from typing import NamedTuple, Protocol


class PoolStatistics(NamedTuple):
    """A slab is a piece of memory that is lent again and again. `grown` and `shrunk` count slabs made and given back.

    `unpooled_count`: leases for which the pool had no room, and which were given memory of their own.
    """

    leased_bytes: int
    free_bytes: int
    slab_count: int
    grown_count: int
    shrunk_count: int
    unpooled_count: int


class BufferPool(Protocol):
    """For all threads."""

    def lease(self, size_bytes: int) -> memoryview:
        """Writable memory of exactly `size_bytes` bytes, with anything in it, aligned to 64 bytes.

        Ownership: it is given back when nobody refers any more to the view, nor to an array or view made from it.
        """
        ...

    def trim(self, idle_ns: int) -> int:
        """Give back what nobody has used for `idle_ns`. Returns its bytes. May take milliseconds."""
        ...

    def statistics(self) -> PoolStatistics: ...
