"""What the kernel tells of a process."""

import os
import signal
import subprocess
import sys
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, mmap
from pathlib import Path

from guepard.engine.processes.process_state import ProcessState
from tests.services.waiting import wait_until

SIZE = 2**26


def test_a_process_that_is_stopped_goes_on_and_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        state = ProcessState(process.pid)
        try:
            assert not state.is_stopped()
            process.send_signal(signal.SIGSTOP)
            wait_until(state.is_stopped)
            process.send_signal(signal.SIGCONT)
            wait_until(lambda: not state.is_stopped())
        finally:
            process.kill()
        process.wait()
        assert (state.is_stopped(), state.private_bytes()) == (False, 0)


def test_a_name_that_looks_like_the_fields_after_it() -> None:
    """The name of a program stands in parentheses among them, and may hold any character."""
    own = Path("/proc/self/comm")
    before = own.read_text().strip()
    try:
        own.write_text("a) T 1 (b")
        assert not ProcessState(os.getpid()).is_stopped()
    finally:
        own.write_text(before)


def test_shared_memory_is_nobody_s_own() -> None:
    state = ProcessState(os.getpid())
    before = state.private_bytes()
    assert 2**20 < before < 2**33
    with mmap(-1, SIZE, MAP_SHARED | MAP_ANONYMOUS) as shared:
        shared[:] = b"x" * SIZE
        assert state.private_bytes() < before + SIZE // 2
        with mmap(-1, SIZE, MAP_PRIVATE | MAP_ANONYMOUS) as own:
            own[:] = b"x" * SIZE
            assert state.private_bytes() > before + SIZE // 2
