"""Triton's shared memory extension: regions of system shared memory, and why there are none of CUDA."""

from guepard.core.errors import Unsupported
from guepard.core.regions import NO_CUDA, RegionRegistry
from guepard.server.http import shared_memory_operations as operations
from guepard.server.http.document_endpoint import Document, DocumentRequest, document_route
from guepard.server.http.guard import Guard
from guepard.server.http.router import Route


class SharedMemoryRoutes:
    def __init__(self, regions: RegionRegistry, guard: Guard) -> None:
        self._regions = regions
        self._guard = guard

    def routes(self) -> list[Route]:
        manages = self._guard.needs("manage")
        system, cuda = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
        region = "region/{region}"
        found = [
            document_route("GET", f"{system}/status", self._status, manages, operations.STATUS),
            document_route("GET", f"{system}/{region}/status", self._status, manages, operations.REGION_STATUS),
            document_route("POST", f"{system}/{region}/register", self._register, manages, operations.REGISTER),
            document_route("POST", f"{system}/{region}/unregister", self._unregister, manages, operations.UNREGISTER),
            document_route("POST", f"{system}/unregister", self._unregister, manages, operations.UNREGISTER_ALL),
        ]
        for method, path in (
            ("GET", "status"),
            ("GET", f"{region}/status"),
            ("POST", f"{region}/register"),
            ("POST", f"{region}/unregister"),
            ("POST", "unregister"),
        ):
            operation = operations.CUDA_STATUS if method == "GET" else operations.CUDA_CHANGE
            found.append(document_route(method, f"{cuda}/{path}", _refuse_cuda, operation=operation))
        return found

    def _status(self, request: DocumentRequest) -> Document:
        return Document(list(self._regions.status(request.params.get("region")).values()))

    def _register(self, request: DocumentRequest) -> Document:
        body = request.body
        self._regions.register(request.params["region"], body.get("key"), body.get("offset", 0), body.get("byte_size"))
        return Document({})

    def _unregister(self, request: DocumentRequest) -> Document:
        self._regions.unregister(request.params.get("region"))
        return Document({})


def _refuse_cuda(request: DocumentRequest) -> Document:
    raise Unsupported(NO_CUDA)
