"""Every way a request or a configuration can fail, as one tree.

An error says what failed, which value did it and what to do instead. It knows its code and whether trying again helps;
it knows nothing of HTTP or gRPC: `protocols/error_body.py` holds that one table.
"""

from enum import Enum
from operator import index
from typing import ClassVar, SupportsIndex


class ErrorCode(Enum):
    """Machine-readable reasons. The values travel in error bodies, metrics labels and logs, so they never change."""

    INVALID_ARGUMENT = "invalid_argument"
    UNAUTHENTICATED = "unauthenticated"
    PERMISSION_DENIED = "permission_denied"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_ACCEPTABLE = "not_acceptable"
    REQUEST_TIMEOUT = "request_timeout"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    HEADERS_TOO_LARGE = "headers_too_large"
    EXPECTATION_FAILED = "expectation_failed"
    QUEUE_FULL = "queue_full"
    OVERLOADED = "overloaded"
    CANCELLED = "cancelled"
    MODEL_ERROR = "model_error"
    INTERNAL = "internal"
    UNSUPPORTED = "unsupported"
    NOT_READY = "not_ready"
    DRAINING = "draining"
    DEADLINE_EXCEEDED = "deadline_exceeded"


class GuepardError(Exception):
    """Root of the tree. `retry_after_ms` is set where waiting helps; None means that trying again as is will not."""

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL

    def __init__(self, message: object, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        # Models raise these too, with whatever they have at hand: what is sent must be text that UTF-8 can carry.
        self.message = str(message).encode(errors="replace").decode()
        self.retry_after_ms = retry_after_ms


class InputError(GuepardError):
    """The caller sent something the model cannot take: 400.

    A model raises it from `predict`. With `row` (0-based, in the batch that `predict` was given) only the request that
    holds that row is refused, and the rest of the batch is run again if the model is idempotent.
    """

    code = ErrorCode.INVALID_ARGUMENT

    def __init__(self, message: object, *, row: SupportsIndex | None = None) -> None:
        super().__init__(message)
        try:
            self.row = None if row is None else index(row)
        except TypeError:
            self.row = None


class PermissionDenied(GuepardError):
    code = ErrorCode.PERMISSION_DENIED


class NotFound(GuepardError):
    code = ErrorCode.NOT_FOUND


class MethodNotAllowed(GuepardError):
    """`allow` lists the methods that the route does take, as the Allow header wants them."""

    code = ErrorCode.METHOD_NOT_ALLOWED

    def __init__(self, message: str, *, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class NotAcceptable(GuepardError):
    """The answer exists but cannot be written in the form that was asked for."""

    code = ErrorCode.NOT_ACCEPTABLE


class RequestTimeout(GuepardError):
    """The client did not finish sending its request in time."""

    code = ErrorCode.REQUEST_TIMEOUT


class PayloadTooLarge(GuepardError):
    code = ErrorCode.PAYLOAD_TOO_LARGE


class UnsupportedMediaType(GuepardError):
    """`accept_encoding` lists the codings that are read, as the header of that name wants them, where one was not."""

    code = ErrorCode.UNSUPPORTED_MEDIA_TYPE

    def __init__(self, message: str, *, accept_encoding: str | None = None) -> None:
        super().__init__(message)
        self.accept_encoding = accept_encoding


class HeadersTooLarge(GuepardError):
    code = ErrorCode.HEADERS_TOO_LARGE


class ExpectationFailed(GuepardError):
    code = ErrorCode.EXPECTATION_FAILED


class QueueFull(GuepardError):
    code = ErrorCode.QUEUE_FULL


class Overloaded(GuepardError):
    """The server as a whole is at a bound, in-flight bytes for instance; the model's queue may be empty."""

    code = ErrorCode.OVERLOADED


class Cancelled(GuepardError):
    """The caller went away. Never sent to anyone; it is what logs and statistics call it."""

    code = ErrorCode.CANCELLED


class ModelError(GuepardError):
    """The model raised, or returned something that breaks its own declaration."""

    code = ErrorCode.MODEL_ERROR


class InstanceLost(ModelError):
    """The process that ran the batch ended, hung or could not be relied on. Another one may run it."""


class InternalError(GuepardError):
    """A fault of the server's own. The log has the details, the caller has none."""

    code = ErrorCode.INTERNAL


class Unsupported(GuepardError):
    """This build or this model lacks the feature; the message says why and what to use."""

    code = ErrorCode.UNSUPPORTED


class NotReady(GuepardError):
    code = ErrorCode.NOT_READY


class Draining(GuepardError):
    code = ErrorCode.DRAINING


class DeadlineExceeded(GuepardError):
    code = ErrorCode.DEADLINE_EXCEEDED


class ConfigurationError(Exception):
    """Wrong usage or configuration. `str(error)` names the field and what to write instead; the CLI exits with 2."""


class LoadError(Exception):
    """A model cannot be loaded. The text becomes the reason in the repository index, so it holds no server paths."""
