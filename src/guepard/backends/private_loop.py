"""An event loop on a thread of its own, for the `async def` methods of one model instance.

Its own thread, so that it does not matter on which thread the engine executes (a running loop cannot be re-entered),
and so that what `load` has started, a connection pool for instance, lives on between two calls.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Iterator
from typing import Any


class PrivateLoop:
    """Runs awaitables for other threads, one at a time or several. Threads: any; `close` once, at the end."""

    __slots__ = ("_loop", "_thread")

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def thread(self) -> int:
        """Its identifier."""
        assert self._thread.ident is not None
        return self._thread.ident

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """The result of `awaitable`. Raises: what it raises, with SystemExit as itself, on the calling thread."""
        error, result = asyncio.run_coroutine_threadsafe(_outcome(awaitable), self._loop).result()
        if error is not None:
            raise error
        return result

    def iterate(self, generator: AsyncGenerator[Any, Any]) -> Iterator[Any]:
        """The items of an asynchronous generator, which is closed when the iteration ends, wherever it does."""
        try:
            while True:
                try:
                    yield self.run(generator.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            self.run(generator.aclose())

    def close(self) -> None:
        """Cancel what still runs, then end the thread."""
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _outcome(awaitable: Awaitable[Any]) -> tuple[BaseException | None, Any]:
    # Caught here, because a task that ends with SystemExit would take the loop with it.
    try:
        return None, await awaitable
    except BaseException as error:
        return error, None


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
