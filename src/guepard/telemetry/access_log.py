"""One log line per request, unless there are too many of them.

Successes: all of them while the traffic is light, else a sampled share. Errors: all of them, but in a storm only the
first hundred of each second, and then one line that says how many were left out.
"""

import logging
from collections.abc import Callable, Mapping

from guepard.core.errors import ErrorCode
from guepard.core.phases import PHASES
from guepard.core.request import InferenceRequest

PER_SECOND_LIMIT = 100
PATH_LIMIT = 512
ERROR_MESSAGE_LIMIT = 1_024

_SECOND_NS = 1_000_000_000
_SHARE_UNIT = 1_000_000
_NEVER = 2**62

_logger = logging.getLogger("guepard.access")
# Inside a program that has set up no logging, Python would print failed requests to stderr, as bare words.
_logger.addHandler(logging.NullHandler())


class AccessLog:
    """Decides which requests are logged and writes them. `clock` gives nanoseconds of the monotonic clock.

    `sample_rate`, 0 to 1, is the share of successes that is logged above `PER_SECOND_LIMIT` requests per second. It is
    taken by counting, not by chance: at 0.01 every hundredth request.
    """

    __slots__ = ("_clock", "_credit", "_due", "_errors", "_left_out", "_quota", "_second_end", "_share", "_successes")

    def __init__(self, sample_rate: float, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._share = round(sample_rate * _SHARE_UNIT)
        self._credit = 0
        self._second_end = clock() + _SECOND_NS
        self._quota = PER_SECOND_LIMIT
        self._successes = 0  # of this second
        self._due = 0  # which of them is the next to be logged, beyond the quota; 0 before that
        self._errors = 0
        self._left_out = 0

    def wants(self, now_ns: int) -> bool:
        """Whether the success that was just answered is to be logged. To be asked once for each. Cost: 0.1 µs."""
        self._successes += 1
        if self._successes < self._due and now_ns < self._second_end:
            return False
        return self._decide(now_ns)

    def record(
        self,
        *,
        request_id: str,
        method: str,
        path: str,
        status: int,
        duration_ns: int,
        bytes_in: int,
        bytes_out: int,
        model: str | None = None,
        version: str | None = None,
        inference_id: str | None = None,
        phases_ns: Mapping[str, int] | None = None,
        error_code: ErrorCode | None = None,
        error_message: str | None = None,
        grpc_code: str | None = None,
    ) -> None:
        """Log one request: a success that `wants` chose, or any error (status 400 and above)."""
        if status >= 400 and not self._wants_error(self._clock()):
            return
        fields: dict[str, object] = {
            "request_id": request_id,
            "method": method,
            "path": _shorten(path, PATH_LIMIT),
            "status": status,
            "duration_ms": _milliseconds(duration_ns),
            "bytes_in": bytes_in,
            "bytes_out": bytes_out,
        }
        if grpc_code is not None:
            fields["grpc_code"] = grpc_code
        if model is not None:
            fields["model"] = model
        if version is not None:
            fields["version"] = version
        if inference_id:
            fields["inference_id"] = inference_id
        if phases_ns:
            fields["phases_ms"] = {phase: _milliseconds(duration) for phase, duration in phases_ns.items()}
        if error_code is not None:
            fields["error_code"] = error_code.value
        if error_message is not None:
            fields["error_message"] = _shorten(error_message, ERROR_MESSAGE_LIMIT)
        _logger.log(logging.WARNING if status >= 500 else logging.INFO, "request", extra=fields)

    def tick(self, now_ns: int) -> None:
        """To be called about once a second, so that what was left out is told even when nothing else happens."""
        if now_ns >= self._second_end:
            self._turn(now_ns)

    def close(self) -> None:
        """Say what was left out so far. To be called once, when the server stops."""
        self._report_left_out()

    def _decide(self, now_ns: int) -> bool:
        if now_ns >= self._second_end:
            self._successes -= 1
            self._turn(now_ns)
            self._successes += 1
        if self._successes + self._errors <= self._quota:
            return True
        if not self._due:
            self._due = self._successes - 1 + self._until_next()
        if self._successes < self._due:
            return False
        self._credit += (self._until_next() * self._share) - _SHARE_UNIT
        self._due = self._successes + self._until_next()
        return True

    def _until_next(self) -> int:
        """After how many successes more the next one is to be logged."""
        return -(-(_SHARE_UNIT - self._credit) // self._share) if self._share else _NEVER

    def _wants_error(self, now_ns: int) -> bool:
        if now_ns >= self._second_end:
            self._turn(now_ns)
        self._errors += 1
        if self._errors <= PER_SECOND_LIMIT:
            return True
        self._left_out += 1
        return False

    def _turn(self, now_ns: int) -> None:
        """Begin the second that holds `now_ns`, knowing how busy the one before it was."""
        idle_ns = now_ns - self._second_end
        was_light = idle_ns >= _SECOND_NS or self._successes + self._errors <= PER_SECOND_LIMIT
        self._quota = PER_SECOND_LIMIT if was_light else 0
        self._second_end = now_ns - idle_ns % _SECOND_NS + _SECOND_NS
        if self._due:  # those that have been passed over count towards the next one
            self._credit += (self._until_next() - (self._due - self._successes)) * self._share
        self._successes = self._due = 0
        self._errors = 0
        self._report_left_out()

    def _report_left_out(self) -> None:
        if self._left_out:
            _logger.warning(
                "%d failed requests are missing here: more than %d in one second",
                self._left_out,
                PER_SECOND_LIMIT,
                extra={"left_out": self._left_out},
            )
            self._left_out = 0


def phase_durations(request: InferenceRequest, request_end: int) -> dict[str, int] | None:
    """How long each phase of an executed request took, in nanoseconds; None for one that was not."""
    stamps = request.stamps
    if stamps is None:
        return None
    moments = (
        request.request_start,
        request.queue_start,
        stamps.compute_start,
        stamps.compute_input_end,
        stamps.compute_output_start,
        stamps.compute_end,
        request_end,
    )
    return {phase: after - before for phase, before, after in zip(PHASES, moments, moments[1:], strict=False)}


def _milliseconds(duration_ns: int) -> float:
    return round(duration_ns / 1_000_000, 3)


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"
