"""Blocking work beside the event loop, on threads that never keep the process alive."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(name: str, work: Callable[[], Result], discard: Callable[[Result], object] | None = None) -> Result:
    """What `work` returns or raises. Cancelling the wait leaves the thread to end by itself.

    `discard` is then given what it returned, on a thread, if the loop still runs.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.cancelled():
            if error is None and discard is not None:
                late = partial(discard, result)  # type: ignore[arg-type]
                threading.Thread(target=late, name=f"{name}-discard", daemon=True).start()
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            outcome = (work(), None)
        except Exception as error:
            outcome = (None, error)  # type: ignore[assignment]
        except BaseException as error:
            # SystemExit in a future would end the loop; no outcome at all would hang the wait.
            outcome = (None, RuntimeError(type(error).__name__))  # type: ignore[assignment]
        try:
            loop.call_soon_threadsafe(settle, *outcome)
        except RuntimeError:
            return  # the loop has closed and nobody waits any more

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError:  # an interpreter that is ending gives no more threads, and nobody minds being held up
        run()
    return await future
