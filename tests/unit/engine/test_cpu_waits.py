"""Waiting for a CPU, of one thread and of all: read from this very process, made to wait by more threads than CPUs."""

import os
import subprocess
import sys

from guepard.engine.cpu_waits import process_waits_ns, thread_waits_ns

CROWD = """
import os, threading, hashlib
from guepard.engine.cpu_waits import process_waits_ns, thread_waits_ns
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
data = bytes(2**22)
def work():
    for _ in range(8):
        hashlib.sha256(data).digest()  # which lets go of the interpreter
before = process_waits_ns(), thread_waits_ns()
others = [threading.Thread(target=work) for _ in range(3)]
for other in others:
    other.start()
native = others[0].native_id
work()
of_another = thread_waits_ns(native) if others[0].is_alive() else 1
print(process_waits_ns() - before[0], thread_waits_ns() - before[1], of_another)
for other in others:
    other.join()
"""


def test_threads_that_share_one_cpu_wait_for_it() -> None:
    run = subprocess.run([sys.executable, "-c", CROWD], capture_output=True, text=True, check=True, timeout=60)
    of_all, own, of_another = map(int, run.stdout.split())
    assert own > 0
    assert of_another > 0
    assert of_all >= own


def test_a_thread_that_is_gone_has_not_waited() -> None:
    assert thread_waits_ns(2**22 + os.getpid()) == 0
    assert process_waits_ns() >= thread_waits_ns() - 1_000_000
