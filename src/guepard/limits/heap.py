"""The C library's heap: given back when asked, kept in one piece where memory is short.

Source: glibc, malloc_trim(3) and mallopt(3). Other C libraries have neither, and then nothing happens.
"""

import ctypes

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_MMAP_THRESHOLD_MAX = 2**25  # glibc takes no more


def trim_heap() -> None:
    """Give free memory of the heap back to the system. Cost: up to some milliseconds, in which allocations wait."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def keep_one_heap() -> None:
    """From now on no thread begins a heap of its own, whose end only that thread could give back."""
    _set(_M_ARENA_MAX, 1)


def keep_freed_memory(most_bytes: int) -> None:
    """From now on the heap keeps up to `most_bytes` that are free, also of large blocks.

    By default it gives blocks of some hundred kilobytes and more back at once, and the kernel clears each page anew
    when the next one of that size is written: many times what writing it costs.
    """
    _set(_M_TRIM_THRESHOLD, most_bytes)
    _set(_M_MMAP_THRESHOLD, min(most_bytes, _MMAP_THRESHOLD_MAX))


def _set(option: int, value: int) -> None:
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(option, value)
