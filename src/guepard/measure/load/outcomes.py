"""How a request ended, as one integer, so that records are rows of int64.

100 to 999 is an HTTP status. GRPC_BASE + n is gRPC's status n. Small numbers are ends without an answer, or with one
that is not what was asked for.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

GRPC_BASE = 1_000
_GRPC_NAMES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
_SHED = frozenset((429, 503, GRPC_BASE + 8, GRPC_BASE + 14))


class End(IntEnum):
    """Ends without a status."""

    DONE = 0
    """An inference in this process returned."""
    REFUSED = 1
    UNREACHABLE = 2
    TLS_FAILED = 3
    RESET = 4
    CLOSED_EARLY = 5
    TIMED_OUT = 6
    MALFORMED = 7
    UNEXPECTED_CONTENT = 8
    BROKEN_STREAM = 9
    FAILED = 10
    """An inference in this process raised."""


_TEXTS = {
    End.DONE: "done",
    End.REFUSED: "connection refused",
    End.UNREACHABLE: "unreachable",
    End.TLS_FAILED: "TLS failed",
    End.RESET: "connection reset",
    End.CLOSED_EARLY: "closed before the answer ended",
    End.TIMED_OUT: "timed out",
    End.MALFORMED: "malformed answer",
    End.UNEXPECTED_CONTENT: "unexpected content",
    End.BROKEN_STREAM: "stream broken",
    End.FAILED: "inference failed",
}


def is_success(outcome: int) -> bool:
    """A 2xx status, gRPC's OK, or an inference that returned."""
    return 200 <= outcome < 300 or outcome in (GRPC_BASE, End.DONE)


def are_successes(outcomes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """`is_success` of each."""
    found: NDArray[np.bool_] = ((outcomes >= 200) & (outcomes < 300)) | (outcomes == GRPC_BASE) | (outcomes == End.DONE)
    return found


def is_shed(outcome: int) -> bool:
    """The server said that it is too busy: 429, 503, RESOURCE_EXHAUSTED, UNAVAILABLE."""
    return outcome in _SHED


def outcome_name(outcome: int) -> str:
    """The outcome in words: `HTTP 429`, `gRPC UNAVAILABLE`, `timed out`."""
    if outcome < 100:
        return _TEXTS[End(outcome)]
    if outcome < GRPC_BASE:
        return f"HTTP {outcome}"
    code = outcome - GRPC_BASE
    return f"gRPC {_GRPC_NAMES[code] if code < len(_GRPC_NAMES) else code}"
