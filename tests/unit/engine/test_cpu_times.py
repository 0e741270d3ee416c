"""What threads had of the CPUs and waited for: read from this very process, made to wait by more threads than CPUs."""

import os
import subprocess
import sys
import threading
from time import thread_time_ns

from guepard.engine.cpu_times import CpuTime, cpu_times, thread_ids, thread_waits_ns

CROWD = """
import os, threading, hashlib
from guepard.engine.cpu_times import cpu_times, thread_waits_ns
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
data = bytes(2**22)
def work():
    for _ in range(8):
        hashlib.sha256(data).digest()  # which lets go of the interpreter
def idle_after_work():
    work()
    done.set()
    end.wait()
done, end = threading.Event(), threading.Event()
other = threading.Thread(target=idle_after_work)
crowd = [other, *[threading.Thread(target=work) for _ in range(2)]]
for thread in crowd:
    thread.start()
work()
done.wait()
own, others = cpu_times([other.native_id])
print(*own, *others, thread_waits_ns(), thread_waits_ns(other.native_id))
end.set()
"""


def test_threads_that_share_one_cpu_have_it_and_wait_for_it() -> None:
    run = subprocess.run([sys.executable, "-c", CROWD], capture_output=True, text=True, check=True, timeout=60)
    own_had, own_waited, had, waited, own_waits, waits = map(int, run.stdout.split())
    assert min(own_had, own_waited, had, waited) > 0
    assert own_waits >= own_waited
    assert waits >= waited


def test_what_the_calling_thread_had_is_of_now() -> None:
    before = thread_time_ns()
    (own,) = cpu_times([])
    assert before <= own.had <= thread_time_ns()


def test_a_thread_that_is_gone_has_had_nothing_and_not_waited() -> None:
    gone = 2**22 + os.getpid()
    assert thread_waits_ns(gone) == 0
    assert cpu_times([gone])[1] == CpuTime(0, 0)


def test_threads_of_this_process_are_known_by_their_native_ids() -> None:
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    try:
        assert {threading.get_native_id(), other.native_id} <= thread_ids()
    finally:
        end.set()
        other.join()
