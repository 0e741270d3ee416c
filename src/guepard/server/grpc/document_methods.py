"""The methods of `GRPCInferenceService` that answer with a document: metadata, health, statistics, management.

A document is the plain dict that the HTTP route of the same meaning sends; its keys are the fields of the response.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError

from guepard.core.errors import GuepardError, InputError, InternalError, NotReady, Unsupported
from guepard.core.regions import NO_CUDA, RegionRegistry
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.protocols.grpc_messages import INFERENCE_SERVICE, method_classes, pool
from guepard.server.documents import Documents
from guepard.server.grpc.call import UnaryCall

log = logging.getLogger(__name__)

Document = dict[str, Any]
Handler = Callable[[Any], Document | Awaitable[Document]]
Guard = Callable[[], None]


class DocumentMethod:
    """Answers by `handler`, a function or a coroutine function of the request message. `guard` may refuse it."""

    def __init__(self, name: str, handler: Handler, guard: Guard | None = None) -> None:
        self.path = f"/{INFERENCE_SERVICE}/{name}"
        self._handler = handler
        self._guard = guard
        self._request_class, self._response_class = method_classes(INFERENCE_SERVICE, name)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, call: UnaryCall, message: bytes) -> None:
        if self._guard is not None:
            self._guard()
        try:
            request = self._request_class.FromString(message)
        except DecodeError:
            raise InputError(f"request message: not a {self._request_class.DESCRIPTOR.name}") from None
        answer = self._handler(request)
        if isinstance(answer, dict):
            call.reply(self._encoded(answer))
            return
        task = asyncio.ensure_future(self._answer(call, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, call: UnaryCall, answer: Awaitable[Document]) -> None:
        try:
            call.reply(self._encoded(await answer))
        except GuepardError as error:
            call.fail_with(error)
        except Exception:
            log.exception("method %s failed", self.path)
            call.fail_with(InternalError("the server failed to answer; its log says why"))

    def _encoded(self, document: Document) -> bytes:
        """Fields that only the HTTP route has are left out."""
        response = self._response_class()
        ParseDict(document, response, ignore_unknown_fields=True, descriptor_pool=pool())
        data: bytes = response.SerializeToString()
        return data

    def write(self, request: InferenceRequest, response: InferenceResponse) -> bytes:
        raise AssertionError("a document has no inference to answer")


class DocumentMethods:
    """`check_verb` raises PermissionDenied where a verb (manage, observe) is not open to callers."""

    def __init__(self, documents: Documents, regions: RegionRegistry, check_verb: Callable[[str], None]) -> None:
        self._documents = documents
        self._regions = regions
        self._check_verb = check_verb

    def methods(self) -> list[DocumentMethod]:
        manages, observes = partial(self._check_verb, "manage"), partial(self._check_verb, "observe")
        return [
            DocumentMethod("ServerLive", lambda request: {"live": True}),
            DocumentMethod("ServerReady", self._server_ready),
            DocumentMethod("ModelReady", self._model_ready),
            DocumentMethod("ServerMetadata", lambda request: self._documents.server_metadata()),
            DocumentMethod("ModelMetadata", lambda request: self._documents.model_metadata(*_named(request))),
            DocumentMethod("ModelConfig", lambda request: {"config": self._documents.model_config(*_named(request))}),
            DocumentMethod("ModelStatistics", self._statistics, observes),
            DocumentMethod("RepositoryIndex", self._index, manages),
            DocumentMethod("RepositoryModelLoad", self._load, manages),
            DocumentMethod("RepositoryModelUnload", self._unload, manages),
            DocumentMethod("TraceSetting", self._trace_settings),
            DocumentMethod("LogSettings", self._log_settings),
            DocumentMethod("SystemSharedMemoryStatus", self._region_status, manages),
            DocumentMethod("SystemSharedMemoryRegister", self._register_region, manages),
            DocumentMethod("SystemSharedMemoryUnregister", self._unregister_region, manages),
            *[DocumentMethod(f"CudaSharedMemory{verb}", _refuse_cuda) for verb in ("Status", "Register", "Unregister")],
        ]

    def _server_ready(self, request: Any) -> Document:
        return {"ready": self._documents.readiness.obstacle() is None}

    def _model_ready(self, request: Any) -> Document:
        try:
            self._documents.check_model_ready(*_named(request))
        except NotReady:
            return {"ready": False}
        return {"ready": True}

    def _statistics(self, request: Any) -> Document:
        name, version = _named(request)
        return self._documents.statistics(name or None, version)

    def _index(self, request: Any) -> Document:
        return {"models": self._documents.index(request.ready)}

    async def _load(self, request: Any) -> Document:
        await self._documents.load(request.model_name, dict(request.parameters))
        return {}

    async def _unload(self, request: Any) -> Document:
        await self._documents.unload(request.model_name, dict(request.parameters))
        return {}

    def _trace_settings(self, request: Any) -> Document:
        """Reading and changing are one call: without settings it reads."""
        self._check_verb("manage" if request.settings else "observe")
        model, traces = request.model_name or None, self._documents.trace_settings
        if request.settings:
            changes = {field: list(each.value) or None for field, each in request.settings.items()}
            found = traces.update(model, changes)
        else:
            found = traces.settings(model)
        values = {field: value if isinstance(value, list) else [value] for field, value in found.items()}
        return {"settings": {field: {"value": value} for field, value in values.items()}}

    def _log_settings(self, request: Any) -> Document:
        self._check_verb("manage" if request.settings else "observe")
        changes = {}
        for field, each in request.settings.items():
            choice = each.WhichOneof("parameter_choice")
            changes[field] = None if choice is None else getattr(each, choice)
        logs = self._documents.log_settings
        found = logs.update(changes) if changes else logs.settings()
        return {"settings": {field: {_parameter_field(value): value} for field, value in found.items()}}

    # Shared memory: a call without a name means all regions.

    def _region_status(self, request: Any) -> Document:
        return {"regions": self._regions.status(request.name or None)}

    def _register_region(self, request: Any) -> Document:
        self._regions.register(request.name, request.key, request.offset, request.byte_size)
        return {}

    def _unregister_region(self, request: Any) -> Document:
        self._regions.unregister(request.name or None)
        return {}


def _refuse_cuda(request: Any) -> Document:
    raise Unsupported(NO_CUDA)


def _parameter_field(value: object) -> str:
    """The field of a log setting's message that holds a value of this type."""
    if isinstance(value, bool):
        return "bool_param"
    return "uint32_param" if isinstance(value, int) else "string_param"


def _named(request: Any) -> tuple[str, str | None]:
    return request.name, request.version or None
