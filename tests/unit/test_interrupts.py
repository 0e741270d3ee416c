"""The tests' own care for SIGINT."""

import signal
import subprocess
import sys

PROGRAM = """
import signal, subprocess, sys
from tests.services.interrupts import heed_interrupts
heed_interrupts()
child = subprocess.run([sys.executable, "-c", "import signal; signal.raise_signal(signal.SIGINT)"], stderr=-3)
print(child.returncode, flush=True)
signal.raise_signal(signal.SIGINT)
"""


def test_children_can_be_interrupted_where_sigint_was_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which children inherit
    try:
        ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ended.stdout, ended.returncode) == (f"{-signal.SIGINT}\n", -signal.SIGINT)


def test_interrupts_are_heeded_here() -> None:
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
