"""Gives executors on GPUs memory for their inputs that the GPU copies from by itself."""

from typing import Any

from guepard.memory.pinned_arena import PinnedArena
from guepard.memory.slab_pool import SlabPool

LIMIT_BYTES = 256 << 20
"""Of each instance. Pinned memory cannot be swapped out, so it is kept small; what does not fit is copied as ever."""


def pin_buffers(executor: Any) -> None:
    """Have `executor` gather its inputs in pinned memory from now on, if it says that it can make use of that."""
    host_memory = getattr(executor, "host_memory", None)
    if host_memory is not None:
        executor.buffers = SlabPool(PinnedArena(host_memory), limit_bytes=LIMIT_BYTES)
