"""One exchange as a line of the access log."""

from typing import TYPE_CHECKING

from guepard.core.errors import ErrorCode, GuepardError
from guepard.core.request import InferenceRequest
from guepard.server.http.request_head import RequestHead
from guepard.server.request_id import new_request_id
from guepard.telemetry.access_log import phase_durations

if TYPE_CHECKING:
    from guepard.server.http.context import HttpContext


def log_exchange(
    context: "HttpContext",
    head: RequestHead,
    status: int,
    now: int,
    started: int,
    bytes_out: int,
    *,
    request_id: str | None = None,
    request: InferenceRequest | None = None,
    error: GuepardError | None = None,
) -> None:
    """Write the line of a request that was answered at `now`, or left by its client (status 499)."""
    if request_id is None:
        request_id = head.request_id.decode("latin-1") or new_request_id()
    code = error.code if error is not None else None
    if status == 499:
        code = ErrorCode.CANCELLED
    context.access_log.record(
        request_id=request_id,
        method=head.method,
        path=head.path,
        status=status,
        duration_ns=now - started,
        bytes_in=head.content_length,
        bytes_out=bytes_out,
        model=head.params.get("model"),
        version=head.params.get("version"),
        inference_id=request.id if request is not None else None,
        phases_ns=phase_durations(request, now) if request is not None else None,
        error_code=code,
        error_message=error.message if error is not None else None,
    )
