"""Triton's `logging` and `trace` extensions: what may be changed while the server runs."""

from guepard.server.documents import Documents
from guepard.server.http import settings_operations as operations
from guepard.server.http.document_endpoint import Document, DocumentRequest, document_route
from guepard.server.http.guard import Guard
from guepard.server.http.router import Route

_LOGGING = "/v2/logging"
_TRACE = "/v2/trace/setting"
_MODEL_TRACE = "/v2/models/{model}/trace/setting"


class SettingsRoutes:
    def __init__(self, documents: Documents, guard: Guard) -> None:
        self._documents = documents
        self._guard = guard

    def routes(self) -> list[Route]:
        manages, observes = self._guard.needs("manage"), self._guard.needs("observe")
        return [
            document_route("GET", _LOGGING, self._log_settings, observes, operations.LOGGING),
            document_route("POST", _LOGGING, self._update_log_settings, manages, operations.UPDATE_LOGGING),
            document_route("GET", _TRACE, self._trace_settings, observes, operations.TRACING),
            document_route("POST", _TRACE, self._update_trace_settings, manages, operations.UPDATE_TRACING),
            document_route("GET", _MODEL_TRACE, self._trace_settings, observes, operations.MODEL_TRACING),
            document_route("POST", _MODEL_TRACE, self._update_trace_settings, manages, operations.UPDATE_MODEL_TRACING),
        ]

    def _log_settings(self, request: DocumentRequest) -> Document:
        return Document(self._documents.log_settings.settings())

    def _update_log_settings(self, request: DocumentRequest) -> Document:
        return Document(self._documents.log_settings.update(request.body))

    def _trace_settings(self, request: DocumentRequest) -> Document:
        return Document(self._documents.trace_settings.settings(request.params.get("model")))

    def _update_trace_settings(self, request: DocumentRequest) -> Document:
        return Document(self._documents.trace_settings.update(request.params.get("model"), request.body))
