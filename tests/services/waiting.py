"""Waiting for a condition, never for a time."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    """Raises: AssertionError when the condition does not come true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(0.01)
