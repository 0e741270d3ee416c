"""The calls of the gRPC port, on grpc.aio: what a method's name leads to, and how a call ends.

Messages come in and go out as bytes, so that what answers them knows nothing of the transport.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

import grpc

from guepard.core.errors import Cancelled, GuepardError, Unsupported
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.limits.admission import Admission
from guepard.protocols.error_body import OWN_STATUSES, StatusTable
from guepard.protocols.grpc_messages import HEALTH_SERVICE, INFERENCE_SERVICE, REFLECTION_SERVICES
from guepard.server.grpc.call import UnaryCall, UnaryMethod
from guepard.server.grpc.health import Health
from guepard.server.grpc.port import GrpcPort
from guepard.server.grpc.reflection import Reflection
from guepard.server.inference_exchange import refuse_beyond
from guepard.server.request_id import new_request_id
from guepard.server.server_timing import server_timing
from guepard.telemetry.access_log import AccessLog, phase_durations
from guepard.telemetry.metrics import UNMATCHED, MetricsRegistry

_SECOND_NS = 1e9
_MAX_DETAILS_BYTES = 2_048  # each may travel as three (%0A), and clients take 8 KiB of metadata in all
_NOT_FOR_METADATA = re.compile(r"[^ -~]")
_CODES = {code.name: code for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class GrpcContext:
    """What all calls share. `compression_level` of answers: none, low, medium or high."""

    max_message_bytes: int
    header_timeout_ns: int
    admission: Admission
    metrics: MetricsRegistry
    access_log: AccessLog
    statuses: StatusTable = OWN_STATUSES
    compression_level: str = "none"


class GrpcListener:
    """Serves `methods`, health and reflection. To be made, started and stopped on one event loop."""

    def __init__(self, context: GrpcContext, methods: Iterable[UnaryMethod], health: Health) -> None:
        self._context = context
        self._routes: dict[str, Any] = {}
        self.calls = 0  # that are being answered now
        self._draining = asyncio.Event()
        for method in methods:
            self._add_unary(method)
        self._add_health(health)
        for service in REFLECTION_SERVICES:
            self._add_reflection(service)
        self._add_refusal(
            f"/{INFERENCE_SERVICE}/ModelStreamInfer", Unsupported("streams are not served yet; use ModelInfer")
        )
        self._port = GrpcPort(
            _Routes(self._routes, self._unmatched),
            context.max_message_bytes,
            context.header_timeout_ns,
            context.compression_level,
        )

    @property
    def paths(self) -> Iterable[str]:
        """Full names of all methods that are served or refused by name."""
        return self._routes.keys()

    @property
    def port(self) -> int:
        return self._port.number

    def bind(self, host: str, port: int) -> None:
        """Take the port. Raises: ConfigurationError."""
        self._port.bind(host, port)

    async def start(self) -> None:
        await self._port.start()

    def stop_accepting(self) -> None:
        self._draining.set()
        self._port.stop_accepting()

    async def wait_until_empty(self, timeout_s: float) -> None:
        await self._port.wait_until_empty(timeout_s)

    async def close(self) -> None:
        await self._port.close()

    # What a path leads to

    def _add_unary(self, method: UnaryMethod) -> None:
        async def handle(message: bytes, context: Any) -> bytes:
            return await self._answer(method, message, context)

        self._routes[method.path] = grpc.unary_unary_rpc_method_handler(handle)

    def _add_health(self, health: Health) -> None:
        for name, answer in (("Check", health.check), ("List", health.list)):
            self._add_unary(_Immediate(f"/{HEALTH_SERVICE}/{name}", answer))
        path = f"/{HEALTH_SERVICE}/Watch"

        async def watch(message: bytes, context: Any) -> AsyncIterator[bytes]:
            async for answer in self._stream(path, context, health.watch(message)):
                yield answer

        self._routes[path] = grpc.unary_stream_rpc_method_handler(watch)

    def _add_reflection(self, service: str) -> None:
        reflection = Reflection(service)
        path = f"/{service}/ServerReflectionInfo"

        async def reflect(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            answers = (reflection.answer(message) async for message in messages)
            async for answer in self._stream(path, context, answers):
                yield answer

        self._routes[path] = grpc.stream_stream_rpc_method_handler(reflect)

    def _add_refusal(self, path: str, error: GuepardError) -> None:
        self._routes[path] = self._refusal(path, path, error)

    def _unmatched(self, path: str) -> Any:
        error = Unsupported(f"no method {path[:256]!r}; reflection lists what there is")
        return self._refusal(UNMATCHED, path, error)

    def _refusal(self, label: str, path: str, error: GuepardError) -> Any:
        async def refuse(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            self._refuse(context, error, _Record(self._context, label, path, _metadata(context)))
            return
            yield b""  # what makes this a stream

        return grpc.stream_stream_rpc_method_handler(refuse)

    # Calls

    async def _answer(self, method: UnaryMethod, message: bytes, context: Any) -> bytes:
        record = _Record(self._context, method.path, method.path, _metadata(context))
        record.bytes_in = len(message)
        left = context.time_remaining()
        timeout_ns = 0 if left is None else max(1, int(left * _SECOND_NS))
        permit = _Permit(self._context)
        call = UnaryCall(method, record.metadata, timeout_ns, record.started, permit.hold)
        try:
            permit.hold(len(message))
        except GuepardError as error:
            return self._refuse(context, error, record)
        self.calls += 1
        try:
            call.begin(message)
            if not call.is_answered:
                await call.answered()
        except asyncio.CancelledError:
            call.cancel()
            record.end(Cancelled("the caller has gone"), call)
            raise
        finally:
            self.calls -= 1
            permit.release()
        if call.error is not None:
            return self._refuse(context, call.error, record, call)
        answer = call.message
        assert answer is not None
        trailing = record.trailing(call.request)
        if trailing:
            context.set_trailing_metadata(trailing)
        record.bytes_out = len(answer)
        record.end(None, call)
        return answer

    async def _stream(self, path: str, context: Any, answers: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        record = _Record(self._context, path, path, _metadata(context))
        try:
            async for answer in _until(self._draining, answers):
                record.bytes_out += len(answer)
                yield answer
        except GuepardError as error:
            self._refuse(context, error, record)
            return
        except (asyncio.CancelledError, GeneratorExit):
            record.end(None)  # leaving is how these streams end
            raise
        record.end(None)

    def _refuse(self, context: Any, error: GuepardError, record: "_Record", call: UnaryCall | None = None) -> bytes:
        """Have the library answer with `error`. What is returned in place of a message is not sent.

        `context.abort` would raise: the traceback and the library's own frames then refer to one another, and a large
        message stays in memory until the garbage collector comes by.
        """
        error.__traceback__ = None
        record.request_id = record.request_id or new_request_id()
        record.end(error, call)
        trailing = [("x-request-id", record.request_id), ("guepard-code", error.code.value)]
        if error.retry_after_ms is not None:
            trailing.append(("guepard-retry-after-ms", str(error.retry_after_ms)))
            trailing.append(("grpc-retry-pushback-ms", str(error.retry_after_ms)))  # what retry policies heed
        context.set_code(_CODES[self._context.statuses.grpc(error)])
        context.set_details(error.message.encode()[:_MAX_DETAILS_BYTES].decode(errors="ignore"))
        context.set_trailing_metadata(tuple(trailing))
        return b""


async def _until(ended: asyncio.Event, answers: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """`answers`, but no further than `ended`: a stream that waits for its caller would hold up the drain."""
    end = asyncio.ensure_future(ended.wait())
    step: asyncio.Future[bytes] | None = None
    try:
        while True:
            step = asyncio.ensure_future(anext(answers))
            await asyncio.wait({step, end}, return_when=asyncio.FIRST_COMPLETED)
            if not step.done():
                return
            try:
                yield step.result()
            except StopAsyncIteration:
                return
    finally:
        end.cancel()
        if step is not None:
            step.cancel()


class _Routes(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, routes: dict[str, Any], unmatched: Callable[[str], Any]) -> None:
        self._routes = routes
        self._unmatched = unmatched

    def service(self, details: Any) -> Any:
        return self._routes.get(details.method) or self._unmatched(details.method)


class _Immediate:
    """A method whose answer needs nothing but the message."""

    def __init__(self, path: str, answer: Callable[[bytes], bytes]) -> None:
        self.path = path
        self._answer = answer

    def start(self, call: UnaryCall, message: bytes) -> None:
        call.reply(self._answer(message))

    def write(self, request: InferenceRequest, response: InferenceResponse) -> bytes:
        raise AssertionError("this method has no inference to answer")


class _Permit:
    """The bytes of one call among those in flight."""

    __slots__ = ("_context", "_size")

    def __init__(self, context: GrpcContext) -> None:
        self._context = context
        self._size = 0

    def hold(self, size: int) -> None:
        """Raises: Overloaded, PayloadTooLarge."""
        refuse_beyond(self._context.max_message_bytes, self._size + size)
        self._context.admission.acquire(size, held=self._size)
        self._size += size

    def release(self) -> None:
        self._context.admission.release(self._size)


class _Record:
    """What the log and the metrics are told of one call, once, when it ends."""

    __slots__ = ("_context", "_label", "_path", "bytes_in", "bytes_out", "metadata", "request_id", "started")

    def __init__(self, context: GrpcContext, label: str, path: str, metadata: dict[str, str]) -> None:
        self._context = context
        self._label = label
        self._path = path
        self.metadata = metadata
        self.request_id = _NOT_FOR_METADATA.sub("?", metadata.get("x-request-id", "")[:128])  # it goes back as it came
        self.started = monotonic_ns()
        self.bytes_in = 0
        self.bytes_out = 0

    def trailing(self, request: InferenceRequest | None) -> tuple[tuple[str, str], ...]:
        """What an answer says beside its message: the phases only to who asks for them."""
        timing = server_timing(request) if request is not None and "server-timing" in self.metadata else ""
        said = (("x-request-id", self.request_id), ("server-timing", timing))
        return tuple([entry for entry in said if entry[1]])

    def end(self, error: GuepardError | None, call: UnaryCall | None = None) -> None:
        now = monotonic_ns()
        code = "OK" if error is None else self._context.statuses.grpc(error)
        request = call.release() if call is not None else None
        self._context.metrics.calls(self._label)[code].append(now - self.started)
        if error is None and not self._context.access_log.wants(now):
            return
        self._context.access_log.record(
            request_id=self.request_id or new_request_id(),
            method="gRPC",
            path=self._path,
            status=200 if error is None else self._context.statuses.http(error),
            grpc_code=code,
            duration_ns=now - self.started,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            model=call.model if call is not None else None,
            version=call.version if call is not None else None,
            inference_id=request.id if request is not None else None,
            phases_ns=phase_durations(request, now) if request is not None else None,
            error_code=error.code if error is not None else None,
            error_message=error.message if error is not None else None,
        )


def _metadata(context: Any) -> dict[str, str]:
    return dict(context.invocation_metadata() or ())
