"""Threads beside the event loop on which bodies are coded and unfolded.

The libraries let go of the interpreter's lock while they work.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

_THREADS = 2
_SLOTS = 4

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Coders:
    """At most two threads, started when first needed. `slots` bounds how many bodies are unfolded at a time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="coder")
        self.slots = asyncio.Semaphore(_SLOTS)

    def run(self, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Awaitable[Result]:
        """What `work` returns or raises. Each piece of work is to be short: the interpreter waits for it at its end."""
        return asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def close(self) -> None:
        """Give the threads back, at most one piece of work from now. Nothing is to be run any more."""
        self._pool.shutdown(cancel_futures=True)
