"""What one model version has done since it was loaded.

The hot path only appends integers to two lists. They are folded into histograms and sums with numpy once some thousands
have gathered, or when somebody reads. All durations are differences of the stamps in `core/phases.py`.
"""

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from guepard.core.phases import PHASES, BatchStamps
from guepard.core.reasons import FailureReason, ReleaseReason
from guepard.core.request import InferenceRequest
from guepard.telemetry.histogram import Durations, HistogramSnapshot, LatencyHistogram
from guepard.telemetry.model_stat import BatchStat, DurationStat, InferenceStats, ModelStat
from guepard.telemetry.step_durations import StepDurations

# Integers that may wait for the next fold, two per request and seven per execution. A fold of so many takes about a
# quarter of a millisecond, which the requests in flight wait for; smaller folds cost more per request.
_PENDING_LIMIT = 4_096

_EXECUTION_FIELDS = 7


class BatchReading(NamedTuple):
    """All executions of one size: how many there were and how long the three parts of them took together."""

    executions: int
    input_ns: int
    compute_ns: int
    output_ns: int


class TokenReading(NamedTuple):
    """What executions of a model with padding were spent on: places that requests filled, and places filled up."""

    request: int
    padding: int


class ModelReading(NamedTuple):
    """Everything that was counted, exact at the moment of reading.

    `request` covers request_start → request_end of the requests that succeeded, and `phases` splits it by the names of
    `PHASES`: each request counts the whole duration of the execution it shared. `batches` is keyed by rows. `tokens` is
    None until a model with padding has executed. `steps` are those around the model, by name.
    """

    request: HistogramSnapshot
    phases: Mapping[str, HistogramSnapshot]
    failures: Mapping[FailureReason, int]
    failure_ns: int
    releases: Mapping[ReleaseReason, int]
    batches: Mapping[int, BatchReading]
    last_inference_ms: int
    terminations: int
    tokens: TokenReading | None = None
    wide: int = 0
    steps: Mapping[str, HistogramSnapshot] = MappingProxyType({})

    @property
    def rows(self) -> int:
        return sum(rows * batch.executions for rows, batch in self.batches.items())

    @property
    def executions(self) -> int:
        return sum(batch.executions for batch in self.batches.values())


class ModelStatistics:
    """Counts for one model version. Belongs to the event loop's thread; every time is monotonic nanoseconds."""

    __slots__ = (
        "_batches",
        "_executions",
        "_failure_ns",
        "_failures",
        "_last_inference_ms",
        "_phases",
        "_releases",
        "_request",
        "_starts",
        "_steps",
        "_terminations",
        "_tokens",
        "_wide",
        "name",
        "version",
    )

    def __init__(self, name: str, version: str, steps: StepDurations | None = None) -> None:
        self.name = name
        self.version = version
        self._steps = steps
        self._starts: list[int] = []
        self._executions: list[int] = []
        self._request = LatencyHistogram()
        self._phases = {phase: LatencyHistogram() for phase in PHASES}
        self._failures = dict.fromkeys(FailureReason, 0)
        self._failure_ns = 0
        self._releases = dict.fromkeys(ReleaseReason, 0)
        self._batches: dict[int, BatchReading] = {}
        self._last_inference_ms = 0
        self._tokens: TokenReading | None = None
        self._wide = 0
        self._terminations = 0

    def record_execution(
        self,
        requests: Sequence[InferenceRequest],
        rows: int,
        stamps: BatchStamps,
        request_end: int,
        reason: ReleaseReason,
    ) -> None:
        """Count one execution that succeeded, after its answers were handed to their senders.

        `requests` are those it answered; `rows` is the batch size it ran at, whoever left meanwhile.
        Cost: about 0.5 µs and 30 ns per request, and as much again for its share of the next fold.
        """
        starts = self._starts
        # Two appends cost half of what extending by a comprehension does.
        for request in requests:
            starts.append(request.request_start)
            starts.append(request.queue_start)
        executions = self._executions
        executions += (
            len(requests),
            rows,
            stamps.compute_start,
            stamps.compute_input_end,
            stamps.compute_output_start,
            stamps.compute_end,
            request_end,
        )
        self._releases[reason] += 1
        if len(starts) + len(executions) >= _PENDING_LIMIT:
            self._fold()

    def record_wide(self) -> None:
        """Count one execution that was begun on all CPUs."""
        self._wide += 1

    def record_failure(self, request: InferenceRequest, reason: FailureReason, now: int) -> None:
        """Count one request that ended with an error at `now`."""
        self._failures[reason] += 1
        self._failure_ns += now - request.request_start

    def record_tokens(self, request: int, padding: int) -> None:
        """Count what one execution that succeeded was spent on, for a model with padding."""
        before = self._tokens or TokenReading(0, 0)
        self._tokens = TokenReading(before.request + request, before.padding + padding)

    def record_termination(self) -> None:
        """Count one execution that was ended early, as nobody waited for it any more."""
        self._terminations += 1

    def activity(self) -> object:
        """Something that compares unequal to what it was before any execution or failure. Folds nothing."""
        return self._last_inference_ms, len(self._executions), self._failure_ns, self._terminations

    def read(self) -> ModelReading:
        self._fold()
        return ModelReading(
            request=self._request.snapshot(),
            phases={phase: histogram.snapshot() for phase, histogram in self._phases.items()},
            failures=dict(self._failures),
            failure_ns=self._failure_ns,
            releases=dict(self._releases),
            batches=dict(sorted(self._batches.items())),
            last_inference_ms=self._last_inference_ms,
            tokens=self._tokens,
            wide=self._wide,
            terminations=self._terminations,
            steps={} if self._steps is None else self._steps.read(),
        )

    def snapshot(self) -> ModelStat:
        """The entry of this version in the answer of the statistics route."""
        reading = self.read()

        def duration(histogram: HistogramSnapshot) -> DurationStat:
            return DurationStat(histogram.count, histogram.total)

        return ModelStat(
            name=self.name,
            version=self.version,
            last_inference=reading.last_inference_ms,
            inference_count=reading.rows,
            execution_count=reading.executions,
            inference_stats=InferenceStats(
                success=duration(reading.request),
                fail=DurationStat(sum(reading.failures.values()), reading.failure_ns),
                queue=duration(reading.phases["queue"]),
                compute_input=duration(reading.phases["input"]),
                compute_infer=duration(reading.phases["compute"]),
                compute_output=duration(reading.phases["output"]),
            ),
            batch_stats=tuple(
                BatchStat(
                    batch_size=rows,
                    compute_input=DurationStat(batch.executions, batch.input_ns),
                    compute_infer=DurationStat(batch.executions, batch.compute_ns),
                    compute_output=DurationStat(batch.executions, batch.output_ns),
                )
                for rows, batch in reading.batches.items()
            ),
        )

    def _fold(self) -> None:
        if not self._executions:
            return
        starts = np.array(self._starts, np.int64).reshape(-1, 2)
        executions = np.array(self._executions, np.int64).reshape(-1, _EXECUTION_FIELDS)
        self._starts.clear()
        self._executions.clear()

        requests, rows, compute_start, request_end = executions[:, (0, 1, 2, 6)].T
        request_start, queue_start = starts.T
        self._request.observe(np.repeat(request_end, requests) - request_start)
        self._phases["decode"].observe(queue_start - request_start)
        self._phases["queue"].observe(np.repeat(compute_start, requests) - queue_start)
        shared = np.diff(executions[:, 2:], axis=1)
        for phase, durations in zip(("input", "compute", "output", "encode"), shared.T, strict=True):
            self._phases[phase].observe(durations, requests)
        self._fold_batches(rows, shared[:, :3])
        self._last_inference_ms = _epoch_ms(int(request_end[-1]))

    def _fold_batches(self, rows: Durations, durations: Durations) -> None:
        sizes, which, counts = np.unique(rows, return_inverse=True, return_counts=True)
        totals = np.zeros((len(sizes), 3), np.int64)
        np.add.at(totals, which, durations)
        for size, count, total in zip(sizes.tolist(), counts.tolist(), totals.tolist(), strict=True):
            before = self._batches.get(size, BatchReading(0, 0, 0, 0))
            self._batches[size] = BatchReading(
                before.executions + count,
                before.input_ns + total[0],
                before.compute_ns + total[1],
                before.output_ns + total[2],
            )


def _epoch_ms(monotonic_ns: int) -> int:
    return (time.time_ns() - time.monotonic_ns() + monotonic_ns) // 1_000_000
