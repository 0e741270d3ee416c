"""A server of grpc.aio, on a thread, whose methods do what a test of a client wants to see."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

SERVICE = "test.Methods"
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]


class GrpcMethods:
    """`calls` that were begun, `cancelled` ones among them, and `most` that were under way at once."""

    def __init__(self) -> None:
        self.port = 0
        self.calls = 0
        self.cancelled = 0
        self.most = 0
        self.gate = 1
        """Gate answers when so many of its calls are there."""
        self._under_way = 0
        self._open = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_stopping = False
        self._grace_s = 0.0
        self._loop = asyncio.new_event_loop()

    def stop(self, grace_s: float = 0.0) -> None:
        """Begin to stop, unless it has begun. From any thread; `run` ends when the calls have, or their grace has."""
        if not self._is_stopping:
            self._is_stopping = True
            self._grace_s = grace_s
            self._loop.call_soon_threadsafe(self._ended.set)

    def run(self, port: int, credentials: Any, ready: threading.Event) -> None:
        self._loop.run_until_complete(self._serve(port, credentials, ready))
        self._loop.close()

    async def _serve(self, port: int, credentials: Any, ready: threading.Event) -> None:
        server = grpc.aio.server(options=_OPTIONS)
        methods = {
            method.__name__: grpc.unary_unary_rpc_method_handler(self._counted(method))
            for method in (self.Echo, self.Large, self.Status, self.Sleep, self.Gate, self.Timed)
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
        address = f"127.0.0.1:{port}"
        self.port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
        await server.start()
        ready.set()
        await self._ended.wait()
        await server.stop(self._grace_s)

    def _counted(self, method: Callable[[bytes, Any], Awaitable[bytes]]) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def handle(message: bytes, context: Any) -> bytes:
            self.calls += 1
            self._under_way += 1
            self.most = max(self.most, self._under_way)
            try:
                return await method(message, context)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            finally:
                self._under_way -= 1

        return handle

    # The methods, named as callers name them

    async def Echo(self, message: bytes, context: Any) -> bytes:  # noqa: N802
        return message

    async def Large(self, message: bytes, context: Any) -> bytes:  # noqa: N802
        return bytes(int(message))

    async def Status(self, message: bytes, context: Any) -> bytes:  # noqa: N802
        await context.abort(_CODES[int(message)], "as you wish\n" * 3)
        return b""

    async def Sleep(self, message: bytes, context: Any) -> bytes:  # noqa: N802
        await asyncio.sleep(int(message) / 1_000)
        return message

    async def Gate(self, message: bytes, context: Any) -> bytes:  # noqa: N802
        if self._under_way >= self.gate:
            self._open.set()
        await self._open.wait()
        return message

    async def Timed(self, message: bytes, context: Any) -> bytes:  # noqa: N802
        """Tells a different time in each answer, to who asks."""
        if "server-timing" in dict(context.invocation_metadata()):
            context.set_trailing_metadata((("server-timing", f"total;dur={self.calls}"),))
        return message


@contextmanager
def grpc_methods(port: int = 0, credentials: Any = None) -> Iterator[GrpcMethods]:
    """Served on loopback until the end of the block."""
    methods, ready = GrpcMethods(), threading.Event()
    thread = threading.Thread(target=methods.run, args=(port, credentials, ready))
    thread.start()
    try:
        assert ready.wait(15.0), "grpc.aio did not start"
        yield methods
    finally:
        if thread.is_alive():
            methods.stop()
        thread.join()
