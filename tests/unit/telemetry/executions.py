"""Executions with chosen durations, recorded as the engine records them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from guepard.core.errors import GuepardError
from guepard.core.phases import BatchStamps
from guepard.core.reasons import ReleaseReason
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.telemetry.statistics import ModelStatistics


class NoSender:
    """Takes answers that nobody reads."""

    def send(self, request: InferenceRequest, response: InferenceResponse, final: bool) -> None: ...

    def finish(self, request: InferenceRequest) -> None: ...

    def fail(self, request: InferenceRequest, error: GuepardError) -> None: ...


def request_that_started_at(request_start: int) -> InferenceRequest:
    return InferenceRequest((), NoSender(), request_start)


@dataclass(frozen=True)
class Execution:
    """`requests` holds (decode, queue) of each request; `shared` the phases input, compute, output and encode."""

    requests: Sequence[tuple[int, int]]
    shared: Mapping[str, int]
    rows: int
    reason: ReleaseReason = ReleaseReason.IDLE
    compute_start: int = 5_000_000_000_000

    def record(self, statistics: ModelStatistics) -> None:
        stamps = BatchStamps()
        stamps.compute_start = self.compute_start
        stamps.compute_input_end = stamps.compute_start + self.shared["input"]
        stamps.compute_output_start = stamps.compute_input_end + self.shared["compute"]
        stamps.compute_end = stamps.compute_output_start + self.shared["output"]
        requests = []
        for decode, queue in self.requests:
            request = request_that_started_at(self.compute_start - queue - decode)
            request.queue_start = self.compute_start - queue
            requests.append(request)
        statistics.record_execution(
            requests, self.rows, stamps, stamps.compute_end + self.shared["encode"], self.reason
        )
