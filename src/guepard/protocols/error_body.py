"""The one table from error codes to what each protocol says, and the JSON body of an error."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from guepard.core.errors import ErrorCode, GuepardError


class ProtocolStatus(NamedTuple):
    """`grpc` is the name of a gRPC status code. `http` 499 is only logged, never sent."""

    http: int
    grpc: str


STATUSES: dict[ErrorCode, ProtocolStatus] = {
    ErrorCode.INVALID_ARGUMENT: ProtocolStatus(400, "INVALID_ARGUMENT"),
    ErrorCode.UNAUTHENTICATED: ProtocolStatus(401, "UNAUTHENTICATED"),
    ErrorCode.PERMISSION_DENIED: ProtocolStatus(403, "PERMISSION_DENIED"),
    ErrorCode.NOT_FOUND: ProtocolStatus(404, "NOT_FOUND"),
    ErrorCode.METHOD_NOT_ALLOWED: ProtocolStatus(405, "UNIMPLEMENTED"),
    ErrorCode.NOT_ACCEPTABLE: ProtocolStatus(406, "INVALID_ARGUMENT"),
    ErrorCode.REQUEST_TIMEOUT: ProtocolStatus(408, "DEADLINE_EXCEEDED"),
    ErrorCode.PAYLOAD_TOO_LARGE: ProtocolStatus(413, "RESOURCE_EXHAUSTED"),
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: ProtocolStatus(415, "INVALID_ARGUMENT"),
    ErrorCode.EXPECTATION_FAILED: ProtocolStatus(417, "INVALID_ARGUMENT"),
    ErrorCode.HEADERS_TOO_LARGE: ProtocolStatus(431, "INVALID_ARGUMENT"),
    ErrorCode.QUEUE_FULL: ProtocolStatus(429, "RESOURCE_EXHAUSTED"),
    ErrorCode.OVERLOADED: ProtocolStatus(429, "RESOURCE_EXHAUSTED"),
    ErrorCode.CANCELLED: ProtocolStatus(499, "CANCELLED"),
    ErrorCode.MODEL_ERROR: ProtocolStatus(500, "INTERNAL"),
    ErrorCode.INTERNAL: ProtocolStatus(500, "INTERNAL"),
    ErrorCode.UNSUPPORTED: ProtocolStatus(501, "UNIMPLEMENTED"),
    ErrorCode.NOT_READY: ProtocolStatus(503, "UNAVAILABLE"),
    ErrorCode.DRAINING: ProtocolStatus(503, "UNAVAILABLE"),
    ErrorCode.DEADLINE_EXCEEDED: ProtocolStatus(504, "DEADLINE_EXCEEDED"),
}

REASONS = {status.value: status.phrase for status in HTTPStatus} | {499: "Client Closed Request"}


@dataclass(frozen=True, slots=True)
class StatusTable:
    """A table that a server answers by, chosen when it starts."""

    by_code: Mapping[ErrorCode, ProtocolStatus]

    def http(self, error: GuepardError) -> int:
        return self.by_code[error.code].http

    def grpc(self, error: GuepardError) -> str:
        return self.by_code[error.code].grpc


OWN_STATUSES = StatusTable(STATUSES)

# What Triton's HTTP and gRPC front ends say in these places, for clients that tell them apart by it.
TRITON_STATUSES = StatusTable(
    STATUSES
    | {
        ErrorCode.NOT_READY: ProtocolStatus(400, "UNAVAILABLE"),
        ErrorCode.QUEUE_FULL: ProtocolStatus(503, "UNAVAILABLE"),
    }
)


def error_body(error: GuepardError) -> bytes:
    """`{"error": …, "code": …}` as OIP has it, with `retry_after_ms` where waiting helps."""
    body: dict[str, Any] = {"error": error.message, "code": error.code.value}
    if error.retry_after_ms is not None:
        body["retry_after_ms"] = error.retry_after_ms
    return orjson.dumps(body)
