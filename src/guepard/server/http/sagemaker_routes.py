"""What Amazon SageMaker asks of a container: `/ping` and `/invocations`."""

from guepard.core.errors import NotReady
from guepard.core.regions import Regions
from guepard.engine.data_plane import DataPlane
from guepard.server.documents import Documents
from guepard.server.http import v1_operations as operations
from guepard.server.http.document_endpoint import Document, DocumentRequest, document_route
from guepard.server.http.invocations_endpoint import InvocationsEndpoint
from guepard.server.http.router import Route

_INVOCATIONS = "/invocations"


class SageMakerRoutes:
    def __init__(self, data_plane: DataPlane, documents: Documents, regions: Regions) -> None:
        self._data_plane = data_plane
        self._regions = regions
        self._documents = documents

    def routes(self) -> list[Route]:
        return [
            document_route("GET", "/ping", self._ping, operation=operations.PING),
            Route(
                "POST",
                _INVOCATIONS,
                InvocationsEndpoint(_INVOCATIONS, self._data_plane, self._regions),
                operations.INVOCATIONS,
            ),
        ]

    def _ping(self, request: DocumentRequest) -> Document:
        obstacle = self._documents.readiness.obstacle()
        if obstacle is not None:
            raise NotReady(obstacle, retry_after_ms=1_000)
        return Document(b"", headers=b"")
