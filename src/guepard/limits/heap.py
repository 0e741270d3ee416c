"""The C library's heap: given back when asked, kept in one piece where memory is short.

Source: glibc, malloc_trim(3) and mallopt(3). Other C libraries have neither, and then nothing happens.
"""

import ctypes

_M_ARENA_MAX = -8


def trim_heap() -> None:
    """Give free memory of the heap back to the system. Cost: up to some milliseconds, in which allocations wait."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def keep_one_heap() -> None:
    """From now on no thread begins a heap of its own, whose end only that thread could give back."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, 1)
