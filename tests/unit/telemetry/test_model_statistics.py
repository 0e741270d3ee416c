"""Statistics of one model version against a naive computation, and their shape against Triton's."""

import json
import random
import time
from collections import Counter
from dataclasses import asdict

from hypothesis import given, settings
from hypothesis import strategies as st

from guepard.core.phases import PHASES
from guepard.core.reasons import FailureReason, ReleaseReason
from guepard.telemetry.histogram import LATENCY_BOUNDS_NS, HistogramSnapshot
from guepard.telemetry.statistics import BatchReading, ModelReading, ModelStatistics
from tests.unit.telemetry.executions import Execution, request_that_started_at

SHARED = ("input", "compute", "output", "encode")

durations = st.integers(0, 200 * 10**9)
executions = st.builds(
    Execution,
    requests=st.lists(st.tuples(durations, durations), max_size=6),
    shared=st.fixed_dictionaries(dict.fromkeys(SHARED, durations)),
    rows=st.integers(1, 9),
    reason=st.sampled_from(ReleaseReason),
)


def matches(histogram: HistogramSnapshot, values: list[int]) -> bool:
    cumulative = [sum(value <= bound for value in values) for bound in LATENCY_BOUNDS_NS]
    return histogram.total == sum(values) and histogram.cumulative == (*cumulative, len(values))


def assert_reading_is_exact(reading: ModelReading, done: list[Execution]) -> None:
    by_phase: dict[str, list[int]] = {phase: [] for phase in PHASES}
    whole: list[int] = []
    for execution in done:
        for decode, queue in execution.requests:
            by_phase["decode"].append(decode)
            by_phase["queue"].append(queue)
            for phase in SHARED:
                by_phase[phase].append(execution.shared[phase])
            whole.append(decode + queue + sum(execution.shared.values()))
    assert matches(reading.request, whole)
    for phase in PHASES:
        assert matches(reading.phases[phase], by_phase[phase]), phase
    assert reading.rows == sum(execution.rows for execution in done)
    assert reading.executions == len(done)
    assert reading.releases == {reason: sum(e.reason is reason for e in done) for reason in ReleaseReason}
    assert reading.batches == {
        rows: BatchReading(count, *(sum(e.shared[phase] for e in done if e.rows == rows) for phase in SHARED[:3]))
        for rows, count in Counter(execution.rows for execution in done).items()
    }


@settings(deadline=None)
@given(st.lists(st.tuples(executions, st.booleans()), max_size=12))
def test_every_count_and_sum_is_exact_whenever_it_is_read(steps: list[tuple[Execution, bool]]) -> None:
    statistics = ModelStatistics("m", "1")
    done: list[Execution] = []
    for execution, is_read in steps:
        execution.record(statistics)
        done.append(execution)
        if is_read:
            assert_reading_is_exact(statistics.read(), done)
    assert_reading_is_exact(statistics.read(), done)


def test_nothing_is_lost_where_pending_executions_are_folded() -> None:
    chance = random.Random(7)
    statistics = ModelStatistics("m", "1")
    done = [
        Execution(
            requests=[(chance.randrange(10**6), chance.randrange(10**8)) for _ in range(chance.randrange(5))],
            shared={phase: chance.randrange(10**7) for phase in SHARED},
            rows=chance.randrange(1, 65),
            reason=chance.choice(list(ReleaseReason)),
        )
        for _ in range(3_000)
    ]
    for execution in done:
        execution.record(statistics)
    assert_reading_is_exact(statistics.read(), done)


def test_phases_of_a_request_add_up_to_its_duration() -> None:
    statistics = ModelStatistics("m", "1")
    for n in range(1, 9):
        Execution([(n, 3 * n)] * n, dict.fromkeys(SHARED, 10 * n), n).record(statistics)
    reading = statistics.read()
    assert sum(reading.phases[phase].total for phase in PHASES) == reading.request.total > 0


def test_failures_are_counted_by_reason_and_never_as_successes() -> None:
    statistics = ModelStatistics("m", "1")
    for reason in FailureReason:
        statistics.record_failure(request_that_started_at(1_000), reason, 1_250)
    statistics.record_failure(request_that_started_at(1_000), FailureReason.TIMEOUT, 1_001)
    reading = statistics.read()
    assert reading.failures == {**dict.fromkeys(FailureReason, 1), FailureReason.TIMEOUT: 2}
    assert reading.failure_ns == 250 * len(FailureReason) + 1
    assert (reading.request.count, reading.rows, reading.executions, reading.last_inference_ms) == (0, 0, 0, 0)


def test_wide_executions_are_counted() -> None:
    statistics = ModelStatistics("m", "1")
    assert statistics.read().wide == 0
    statistics.record_wide()
    assert statistics.read().wide == 1


def test_snapshot_has_the_shape_and_the_meaning_of_tritons_statistics_extension() -> None:
    statistics = ModelStatistics("résumé", "3")
    shared = {"input": 10, "compute": 200, "output": 30, "encode": 4}
    Execution([(1, 2), (3, 5)], shared, rows=7).record(statistics)
    Execution([(1, 1)], shared, rows=2).record(statistics)
    statistics.record_failure(request_that_started_at(0), FailureReason.BACKEND, 99)
    document = json.loads(json.dumps(asdict(statistics.snapshot())))

    last_inference = document.pop("last_inference")
    assert isinstance(last_inference, int)
    assert document == {
        "name": "résumé",
        "version": "3",
        "inference_count": 9,
        "execution_count": 2,
        "inference_stats": {
            "success": {"count": 3, "ns": 3 + 8 + 2 + 3 * 244},
            "fail": {"count": 1, "ns": 99},
            "queue": {"count": 3, "ns": 8},
            "compute_input": {"count": 3, "ns": 30},
            "compute_infer": {"count": 3, "ns": 600},
            "compute_output": {"count": 3, "ns": 90},
            "cache_hit": {"count": 0, "ns": 0},
            "cache_miss": {"count": 0, "ns": 0},
        },
        "batch_stats": [
            {
                "batch_size": rows,
                "compute_input": {"count": 1, "ns": 10},
                "compute_infer": {"count": 1, "ns": 200},
                "compute_output": {"count": 1, "ns": 30},
            }
            for rows in (2, 7)
        ],
        "response_stats": {},
        "memory_usage": [],
    }


def test_last_inference_is_in_milliseconds_since_the_epoch() -> None:
    statistics = ModelStatistics("m", "1")
    before_ms = time.time_ns() // 1_000_000
    Execution([(1, 1)], dict.fromkeys(SHARED, 0), rows=1, compute_start=time.monotonic_ns()).record(statistics)
    last_inference = statistics.snapshot().last_inference
    assert before_ms - 1 <= last_inference <= time.time_ns() // 1_000_000 + 1
    assert statistics.snapshot().last_inference == last_inference
