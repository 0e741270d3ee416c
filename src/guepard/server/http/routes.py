"""Every route of the HTTP port and of the metrics port."""

from collections.abc import Callable
from typing import Any

from guepard.core.errors import InputError, NotReady, PermissionDenied
from guepard.core.states import ModelReadyState
from guepard.engine.control_plane import ControlPlane
from guepard.engine.data_plane import DataPlane
from guepard.engine.served_model import ServedModel
from guepard.protocols import oip_metadata
from guepard.server.http.document_endpoint import Document, DocumentEndpoint, DocumentRequest, Handler
from guepard.server.http.guard import Guard
from guepard.server.http.infer_endpoint import InferEndpoint
from guepard.server.http.request_head import RequestHead
from guepard.server.http.router import Route
from guepard.telemetry.metrics import MetricsRegistry

_MODEL = "/v2/models/{model}"
_VERSION = "/v2/models/{model}/versions/{version}"


class Readiness:
    """Whether traffic should be sent here. `is_stopping` is set first when the server shuts down."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.is_stopping = False
        self._control_plane = control_plane

    def obstacle(self) -> str | None:
        """Why not, or None when the server is ready."""
        if self.is_stopping:
            return "the server is shutting down"
        unready = self._control_plane.unready()
        return f"not ready: {', '.join(unready)}" if unready else None


class ApiRoutes:
    """The Open Inference Protocol V2 over one data plane."""

    def __init__(self, data_plane: DataPlane, control_plane: ControlPlane, guard: Guard, readiness: Readiness) -> None:
        self._data_plane = data_plane
        self._control_plane = control_plane
        self._guard = guard
        self._readiness = readiness

    def routes(self) -> list[Route]:
        found = [
            _route("GET", "/v2", self._server_metadata),
            _route("GET", "/v2/health/live", self._live),
            _route("GET", "/v2/health/ready", self._ready),
            _route("GET", "/v2/models/stats", self._all_statistics, self._observes),
            _route("POST", "/v2/repository/index", self._index, self._manages),
            _route("POST", "/v2/repository/models/{model}/load", self._load, self._manages),
            _route("POST", "/v2/repository/models/{model}/unload", self._unload, self._manages),
        ]
        for template in (_MODEL, _VERSION):
            infer = f"{template}/infer"
            found += [
                _route("GET", template, self._model_metadata),
                _route("GET", f"{template}/ready", self._model_ready),
                _route("GET", f"{template}/config", self._model_config),
                _route("GET", f"{template}/stats", self._model_statistics, self._observes),
                Route("POST", infer, InferEndpoint(infer, self._data_plane)),
            ]
        return found

    def _manages(self, head: RequestHead) -> None:
        self._guard.check(head, "manage")

    def _observes(self, head: RequestHead) -> None:
        self._guard.check(head, "observe")

    # The server

    def _server_metadata(self, request: DocumentRequest) -> Document:
        return Document(oip_metadata.server_metadata())

    def _live(self, request: DocumentRequest) -> Document:
        return Document({"live": True})

    def _ready(self, request: DocumentRequest) -> Document:
        obstacle = self._readiness.obstacle()
        if obstacle is not None:
            return Document({"ready": False, "error": obstacle}, 503)
        return Document({"ready": True})

    # Models

    def _model_metadata(self, request: DocumentRequest) -> Document:
        config = self._lookup(request).config
        return Document(oip_metadata.model_metadata(config, [config.version]))

    def _model_ready(self, request: DocumentRequest) -> Document:
        served = self._lookup(request)
        if served.ailment is not None:
            raise NotReady(f"model {served.config.name!r} is not ready: {served.ailment}", retry_after_ms=1_000)
        return Document({"name": served.config.name, "ready": True})

    def _model_config(self, request: DocumentRequest) -> Document:
        return Document(oip_metadata.model_config(self._lookup(request).config))

    def _model_statistics(self, request: DocumentRequest) -> Document:
        return Document({"model_stats": [self._lookup(request).statistics.snapshot()]})

    def _all_statistics(self, request: DocumentRequest) -> Document:
        return Document(
            {"model_stats": [served.statistics.snapshot() for served in self._data_plane.served().values()]}
        )

    def _lookup(self, request: DocumentRequest) -> ServedModel:
        return self._data_plane.lookup(request.params["model"], request.params.get("version"))

    # The repository

    def _index(self, request: DocumentRequest) -> Document:
        only_ready = request.body.get("ready", False)
        if not isinstance(only_ready, bool):
            raise InputError(f"ready: expected true or false, got {only_ready!r}")
        return Document(
            [
                {"name": entry.name, "version": entry.version, "state": entry.state.value, "reason": entry.reason}
                for entry in self._control_plane.index()
                if entry.state is ModelReadyState.READY or not only_ready
            ]
        )

    async def _load(self, request: DocumentRequest) -> Document:
        for name in _parameters(request):
            if name == "config" or name.startswith("file:"):
                raise PermissionDenied(f"parameters.{name}: a client may not override configuration or files")
        await self._control_plane.load(request.params["model"])
        return Document({})

    async def _unload(self, request: DocumentRequest) -> Document:
        _parameters(request)
        await self._control_plane.unload(request.params["model"])
        return Document({})


class MetricsRoutes:
    """What the metrics port serves."""

    def __init__(self, registry: MetricsRegistry, guard: Guard) -> None:
        self._registry = registry
        self._guard = guard

    def routes(self) -> list[Route]:
        return [_route("GET", "/metrics", self._metrics, lambda head: self._guard.check(head, "observe"))]

    def _metrics(self, request: DocumentRequest) -> Document:
        body, media_type = self._registry.render(request.head.text(b"accept") or "")
        return Document(body, headers=b"content-type: %b\r\n" % media_type.encode())


def _route(method: str, template: str, handler: Handler, guard: Callable[[RequestHead], None] | None = None) -> Route:
    return Route(method, template, DocumentEndpoint(template, handler, guard))


def _parameters(request: DocumentRequest) -> dict[str, Any]:
    parameters = request.body.get("parameters", {})
    if not isinstance(parameters, dict):
        raise InputError("parameters: expected an object")
    return parameters
