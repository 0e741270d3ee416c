"""The one table of codes."""

import json

import pytest

from guepard.core import errors
from guepard.core.errors import ErrorCode, GuepardError, InputError, MethodNotAllowed, QueueFull
from guepard.protocols.error_body import OWN_STATUSES, REASONS, STATUSES, TRITON_STATUSES, error_body

GRPC_CODES = {
    "CANCELLED",
    "DEADLINE_EXCEEDED",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
}


def test_every_code_has_a_status_with_a_reason() -> None:
    assert STATUSES.keys() == set(ErrorCode)
    for status in STATUSES.values():
        assert REASONS[status.http]
        assert status.grpc in GRPC_CODES


@pytest.mark.parametrize(
    ("code", "http", "grpc"),
    [
        (ErrorCode.INVALID_ARGUMENT, 400, "INVALID_ARGUMENT"),
        (ErrorCode.NOT_FOUND, 404, "NOT_FOUND"),
        (ErrorCode.PAYLOAD_TOO_LARGE, 413, "RESOURCE_EXHAUSTED"),
        (ErrorCode.QUEUE_FULL, 429, "RESOURCE_EXHAUSTED"),
        (ErrorCode.CANCELLED, 499, "CANCELLED"),
        (ErrorCode.MODEL_ERROR, 500, "INTERNAL"),
        (ErrorCode.UNSUPPORTED, 501, "UNIMPLEMENTED"),
        (ErrorCode.NOT_READY, 503, "UNAVAILABLE"),
        (ErrorCode.DEADLINE_EXCEEDED, 504, "DEADLINE_EXCEEDED"),
    ],
)
def test_statuses_that_clients_rely_on(code: ErrorCode, http: int, grpc: str) -> None:
    assert STATUSES[code] == (http, grpc)


def test_every_error_has_a_code_of_the_table() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GuepardError)]
    assert len(kinds) > 15
    assert all(kind.code in STATUSES for kind in kinds)


def test_a_body_says_what_and_which_kind() -> None:
    assert json.loads(error_body(InputError('x: "é"\n'))) == {"error": 'x: "é"\n', "code": "invalid_argument"}
    assert OWN_STATUSES.http(InputError("x")) == 400


def test_a_body_says_when_to_come_back() -> None:
    assert json.loads(error_body(QueueFull("full", retry_after_ms=20))) == {
        "error": "full",
        "code": "queue_full",
        "retry_after_ms": 20,
    }


def test_what_a_class_adds_is_not_sent() -> None:
    error = MethodNotAllowed("no", allow="GET")
    assert json.loads(error_body(error)) == {"error": "no", "code": "method_not_allowed"}
    assert OWN_STATUSES.http(error) == 405


def test_triton_s_table_differs_where_triton_does_and_nowhere_else() -> None:
    assert TRITON_STATUSES.by_code.keys() == STATUSES.keys()
    differing = {code: status for code, status in TRITON_STATUSES.by_code.items() if status != STATUSES[code]}
    assert differing == {ErrorCode.NOT_READY: (400, "UNAVAILABLE"), ErrorCode.QUEUE_FULL: (503, "UNAVAILABLE")}
    full = QueueFull("full")
    assert (TRITON_STATUSES.http(full), TRITON_STATUSES.grpc(full)) == (503, "UNAVAILABLE")
    assert (OWN_STATUSES.http(full), OWN_STATUSES.grpc(full)) == (429, "RESOURCE_EXHAUSTED")
