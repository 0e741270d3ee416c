"""Server and load client on cores of their own."""

import os


def pinned() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Commands under which the server and the client run: `taskset` to the first and to the second core.

    Empty where there is only one core.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return (), ()
    return ("taskset", "--cpu-list", str(cores[0])), ("taskset", "--cpu-list", str(cores[1]))
