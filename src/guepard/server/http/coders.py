"""Threads beside the event loop on which bodies are coded and unfolded, and others on which long ones are read.

What works there lets go of the interpreter's lock meanwhile, or every now and then.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

_THREADS = 2
_MOST_FOR_BODIES = 4
_SLOTS = 4

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Coders:
    """At most so many threads, started when first needed. `slots` bounds how many bodies are unfolded at a time."""

    def __init__(self, threads: int = _THREADS, name: str = "coder") -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self.slots = asyncio.Semaphore(_SLOTS)

    @classmethod
    def for_bodies(cls, cpus: int = 2) -> "Coders":
        """To read long bodies on: half of `cpus`, so that the loop and the models keep the others."""
        return cls(max(1, min(cpus // 2, _MOST_FOR_BODIES)), "body")

    def run(self, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Awaitable[Result]:
        """What `work` returns or raises. Each piece of work is to be short: the interpreter waits for it at its end."""
        return asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def close(self) -> None:
        """Give the threads back, at most one piece of work from now. Nothing is to be run any more."""
        self._pool.shutdown(cancel_futures=True)
