"""What the C library is asked for, in processes of their own."""

import subprocess
import sys

HEAPS = """
import ctypes, re, threading
from guepard.limits.heap import keep_one_heap, trim_heap

if {one}:
    keep_one_heap()

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.open_memstream.restype = ctypes.c_void_p
gate = threading.Barrier(5)

def allocate():
    kept = libc.malloc(1_000)
    gate.wait()

threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
text, size = ctypes.c_char_p(), ctypes.c_size_t()
stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(size)))
libc.malloc_info(0, stream)
libc.fclose(stream)
gate.wait()
print(len(re.findall(rb"<heap nr", text.value)))
"""


def heaps(one: bool) -> int:
    code = HEAPS.format(one=one)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def test_threads_begin_heaps_of_their_own_unless_told_not_to() -> None:
    assert heaps(one=True) == 1
    assert heaps(one=False) > 1


def test_freed_memory_is_kept_for_what_comes_next() -> None:
    """In a process of its own, as that holds from then on: large blocks of a kind cost no new pages."""
    program = """
import resource
from guepard.limits.heap import keep_freed_memory

keep_freed_memory(2**26)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def use():
    one, other = bytearray(2**22), bytearray(2**22)
    one[::4096] = other[::4096] = b"x" * 1024

use()
before = faults()
for _ in range(20):
    use()
assert faults() - before < 20 * 1024, faults() - before
"""
    subprocess.run([sys.executable, "-c", program], check=True)
