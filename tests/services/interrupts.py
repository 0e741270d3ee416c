"""Ctrl-C as a terminal has it, however the tests were started."""

import signal


def heed_interrupts() -> None:
    """SIGINT interrupts this process and those it starts, even if whoever started it had it ignored.

    Shells have it ignored by what they start with `&` in a script, and so would every child that a test interrupts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
