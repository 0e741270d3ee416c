"""What the metrics port serves."""

from guepard.server.http.document_endpoint import Document, DocumentRequest, document_route
from guepard.server.http.guard import Guard
from guepard.server.http.router import Route
from guepard.telemetry.metrics import MetricsRegistry


class MetricsRoutes:
    def __init__(self, registry: MetricsRegistry, guard: Guard) -> None:
        self._registry = registry
        self._guard = guard

    def routes(self) -> list[Route]:
        return [document_route("GET", "/metrics", self._metrics, self._guard.needs("observe"))]

    def _metrics(self, request: DocumentRequest) -> Document:
        body, media_type = self._registry.render(request.head.text(b"accept") or "")
        return Document(body, headers=b"content-type: %b\r\n" % media_type.encode())
