"""The Open Inference Protocol V2 over HTTP."""

from functools import partial

from guepard.core.errors import InputError, NotReady
from guepard.core.regions import Regions
from guepard.engine.data_plane import DataPlane
from guepard.protocols.error_body import StatusTable
from guepard.protocols.oip_codec import OipCodec
from guepard.server.documents import Documents
from guepard.server.http import oip_operations as operations
from guepard.server.http.document_endpoint import Document, DocumentRequest, document_route
from guepard.server.http.guard import Guard
from guepard.server.http.infer_endpoint import InferEndpoint
from guepard.server.http.router import Route

_MODEL = "/v2/models/{model}"
_VERSION = "/v2/models/{model}/versions/{version}"


class OipRoutes:
    def __init__(
        self,
        data_plane: DataPlane,
        documents: Documents,
        guard: Guard,
        statuses: StatusTable,
        regions: Regions,
    ) -> None:
        self._data_plane = data_plane
        self._regions = regions
        self._documents = documents
        self._guard = guard
        self._statuses = statuses

    def routes(self) -> list[Route]:
        manages, observes = self._guard.needs("manage"), self._guard.needs("observe")
        found = [
            document_route("GET", "/v2", self._server_metadata, operation=operations.SERVER_METADATA),
            document_route("GET", "/v2/health/live", self._live, operation=operations.LIVE),
            document_route("GET", "/v2/health/ready", self._ready, operation=operations.READY),
            document_route("GET", "/v2/models/stats", self._all_statistics, observes, operations.ALL_STATISTICS),
            document_route("POST", "/v2/repository/index", self._index, manages, operations.INDEX),
            document_route("POST", "/v2/repository/models/{model}/load", self._load, manages, operations.LOAD),
            document_route("POST", "/v2/repository/models/{model}/unload", self._unload, manages, operations.UNLOAD),
        ]
        make_codec = partial(OipCodec, regions=self._regions)
        for template in (_MODEL, _VERSION):
            infer = f"{template}/infer"
            found += [
                document_route("GET", template, self._model_metadata, operation=operations.MODEL_METADATA),
                document_route("GET", f"{template}/ready", self._model_ready, operation=operations.MODEL_READY),
                document_route("GET", f"{template}/config", self._model_config, operation=operations.MODEL_CONFIG),
                document_route(
                    "GET", f"{template}/stats", self._model_statistics, observes, operations.MODEL_STATISTICS
                ),
                Route(
                    "POST", infer, InferEndpoint(infer, self._data_plane, make_codec, self._regions), operations.INFER
                ),
            ]
        return found

    # The server

    def _server_metadata(self, request: DocumentRequest) -> Document:
        return Document(self._documents.server_metadata())

    def _live(self, request: DocumentRequest) -> Document:
        return Document({"live": True})

    def _ready(self, request: DocumentRequest) -> Document:
        obstacle = self._documents.readiness.obstacle()
        if obstacle is not None:
            return Document({"ready": False, "error": obstacle}, self._statuses.http(NotReady(obstacle)))
        return Document({"ready": True})

    # Models

    def _model_metadata(self, request: DocumentRequest) -> Document:
        return Document(self._documents.model_metadata(*_named(request)))

    def _model_ready(self, request: DocumentRequest) -> Document:
        name, version = _named(request)
        self._documents.check_model_ready(name, version)
        return Document({"name": name, "ready": True})

    def _model_config(self, request: DocumentRequest) -> Document:
        return Document(self._documents.model_config(*_named(request)))

    def _model_statistics(self, request: DocumentRequest) -> Document:
        return Document(self._documents.statistics(*_named(request)))

    def _all_statistics(self, request: DocumentRequest) -> Document:
        return Document(self._documents.statistics())

    # The repository

    def _index(self, request: DocumentRequest) -> Document:
        only_ready = request.body.get("ready", False)
        if not isinstance(only_ready, bool):
            raise InputError(f"ready: expected true or false, got {only_ready!r}")
        return Document(self._documents.index(only_ready))

    async def _load(self, request: DocumentRequest) -> Document:
        await self._documents.load(request.params["model"], request.body.get("parameters", {}))
        return Document({})

    async def _unload(self, request: DocumentRequest) -> Document:
        await self._documents.unload(request.params["model"], request.body.get("parameters", {}))
        return Document({})


def _named(request: DocumentRequest) -> tuple[str, str | None]:
    return request.params["model"], request.params.get("version")
