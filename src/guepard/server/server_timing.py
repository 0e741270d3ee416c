"""Where the time of an inference went, as the header or metadata Server-Timing (W3C Server Timing).

The phases that are over when the head is written, in milliseconds. What a batch shares is written once per batch, and
small durations are looked up, so that a request costs one join.
"""

from guepard.core.phases import BatchStamps
from guepard.core.request import InferenceRequest

_KEPT_BELOW = 4_096


class _Durations(dict[int, bytes]):
    """Microseconds as milliseconds, with `before` and `after` around them. Small ones are kept."""

    def __init__(self, before: bytes, after: bytes = b"") -> None:
        super().__init__()
        self._before = before
        self._after = after

    def __missing__(self, microseconds: int) -> bytes:
        text = b"%b%d.%03d%b" % (self._before, *divmod(microseconds, 1_000), self._after)
        if microseconds < _KEPT_BELOW:
            self[microseconds] = text
        return text


_NAME = b"server-timing: "

_DECODE = _Durations(_NAME + b"decode;dur=")
_QUEUE = _Durations(b", queue;dur=")
_INPUT = _Durations(b", input;dur=")
_COMPUTE = _Durations(b", compute;dur=")
_OUTPUT = _Durations(b", output;dur=", b"\r\n")


def with_server_timing(headers: bytes, request: InferenceRequest) -> bytes:
    """`headers` and the line of `request`, or `headers` alone for an answer that nothing was executed for.

    Cost: about 0.2 µs.
    """
    stamps = request.stamps
    if stamps is None:
        return headers
    queue_start = request.queue_start
    return b"".join(
        (
            headers,
            _DECODE[(queue_start - request.request_start) // 1_000],
            _QUEUE[(stamps.compute_start - queue_start) // 1_000],
            stamps.server_timing or _of_batch(stamps),
        )
    )


def server_timing(request: InferenceRequest) -> str:
    """The line's value alone, for protocols that are not written as lines; empty where nothing was executed."""
    return with_server_timing(b"", request)[len(_NAME) : -2].decode()


def _of_batch(stamps: BatchStamps) -> bytes:
    stamps.server_timing = b"".join(
        (
            _INPUT[(stamps.compute_input_end - stamps.compute_start) // 1_000],
            _COMPUTE[(stamps.compute_output_start - stamps.compute_input_end) // 1_000],
            _OUTPUT[(stamps.compute_end - stamps.compute_output_start) // 1_000],
        )
    )
    return stamps.server_timing
