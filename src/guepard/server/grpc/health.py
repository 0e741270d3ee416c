"""gRPC's own health protocol. Services: "" and the inference service for the server, and every model by its name."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.message import DecodeError

from guepard.core.errors import GuepardError, InputError, NotFound, NotReady
from guepard.protocols.grpc_messages import HEALTH_SERVICE, INFERENCE_SERVICE, message_class
from guepard.server.documents import Documents

_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = 1, 2, 3
_LOOK_S = 0.25


class Health:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def check(self, message: bytes) -> bytes:
        """Raises: NotFound for a service that is none."""
        service = _service(message)
        status = self._status(service)
        if status == _SERVICE_UNKNOWN:
            raise NotFound(f"unknown service {service[:128]!r}")
        return _response(status)

    async def watch(self, message: bytes) -> AsyncIterator[bytes]:
        """The status now, and again whenever it has changed."""
        service = _service(message)
        last = None
        while True:
            status = self._status(service)
            if status != last:
                last = status
                yield _response(status)
            await asyncio.sleep(_LOOK_S)

    def list(self, message: bytes) -> bytes:
        statuses = message_class("grpc.health.v1.HealthListResponse")()
        models = [entry["name"] for entry in self._documents.index(only_ready=False)]
        for service in ("", INFERENCE_SERVICE, *models):
            statuses.statuses[service].status = self._status(service)
        data: bytes = statuses.SerializeToString()
        return data

    def _status(self, service: str) -> int:
        if service in ("", INFERENCE_SERVICE, HEALTH_SERVICE):
            return _SERVING if self._documents.readiness.obstacle() is None else _NOT_SERVING
        try:
            self._documents.check_model_ready(service, None)
        except NotReady:
            return _NOT_SERVING
        except GuepardError:
            return _SERVICE_UNKNOWN
        return _NOT_SERVING if self._documents.readiness.is_stopping else _SERVING


def _service(message: bytes) -> str:
    request: Any = message_class("grpc.health.v1.HealthCheckRequest")
    try:
        service: str = request.FromString(message).service
    except DecodeError:
        raise InputError("request message: not a HealthCheckRequest") from None
    return service


def _response(status: int) -> bytes:
    data: bytes = message_class("grpc.health.v1.HealthCheckResponse")(status=status).SerializeToString()
    return data
