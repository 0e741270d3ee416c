"""Runs as a measurement would give them, all well unless a test changes something."""

from typing import Any

import msgspec

from guepard.measure.load.outcomes import outcome_name
from guepard.measure.results import (
    ErrorCount,
    Estimate,
    GeneratorReport,
    Latency,
    Load,
    Percentile,
    Run,
    Slice,
    Steadiness,
    Window,
)


def latency_of(count: int = 10_000, *, effective: int | None = None, **values_ms: float) -> Latency:
    """`p50=40.0, p99_9=80.0` are percentiles; each has an interval of 2 % to both sides, which is open above where the
    samples are worth too little."""
    effective = count if effective is None else effective
    values = values_ms or {"p50": 40.0, "p90": 60.0, "p99": 80.0}
    percentiles = []
    for name, value in values.items():
        percent = float(name[1:].replace("_", "."))
        needed = round(10 / (1 - percent / 100))
        percentiles.append(
            Percentile(
                percent=percent,
                value_ms=value,
                low_ms=value * 0.98,
                high_ms=value * 1.02 if effective >= needed else None,
                is_supported=count >= needed,
                needed=needed,
            )
        )
    largest = max(values.values())
    return Latency(
        count=count,
        effective_count=effective,
        mean_ms=largest / 2,
        min_ms=0.1,
        max_ms=largest,
        percentiles=tuple(percentiles),
        histogram="",
    )


def error_of(outcome: int, count: int) -> ErrorCount:
    return ErrorCount(outcome=outcome, name=outcome_name(outcome), count=count, latency=latency_of(count, p50=1.0))


def slices_of(offered: list[int], succeeded: list[int], *, failed: int = 0, seconds: float = 1.0) -> tuple[Slice, ...]:
    """One slice after the other. What succeeds in none has no latency."""
    found, in_flight = [], 0
    for index, (due, done) in enumerate(zip(offered, succeeded, strict=True)):
        in_flight += due - done - failed
        found.append(
            Slice(
                start_s=index * seconds,
                end_s=(index + 1) * seconds,
                offered=due,
                succeeded=done,
                failed={"HTTP 500": failed} if failed else {},
                p50_ms=40.0 if done else None,
                p90_ms=60.0 if done else None,
                p99_ms=80.0 if done else None,
                max_ms=90.0 if done else None,
                in_flight=in_flight,
            )
        )
    return tuple(found)


def generator_of(**changes: Any) -> GeneratorReport:
    well = GeneratorReport(
        processes=1,
        cpu_s=2.0,
        cpu_share=0.2,
        cpu_us_per_request=20.0,
        runqueue_wait_share=0.0,
        send_lag=latency_of(p50=0.05, p99=0.2),
        loop_lag=latency_of(p50=0.05, p99=0.2),
        connections_opened=50,
        connect=None,
        tls=None,
        blocked_share=0.0,
        priority=0,
        self_test_rate=None,
    )
    return msgspec.structs.replace(well, **changes)


def load_of(**changes: Any) -> Load:
    well = Load(
        loop="open",
        arrivals="poisson",
        rate=1_000.0,
        concurrency=None,
        duration_s=10.0,
        requests=0,
        timeout_s=30.0,
        max_connections=1_024,
        processes=1,
        seed=1,
    )
    return msgspec.structs.replace(well, **changes)


CLOSED = load_of(loop="closed", arrivals="closed", rate=None, concurrency=16)


def run_of(**changes: Any) -> Run:
    """1,000 requests a second for 10 s."""
    well = Run(
        name="run",
        started_s=0.0,
        load=load_of(),
        is_valid=True,
        findings=(),
        window=Window(start_s=0.0, end_s=10.0, warm_up="none"),
        steadiness=Steadiness(is_steady=True, throughput_spread=0.01, latency_spread=0.02, drift=0.0, says="steady"),
        offered=10_000,
        succeeded=10_000,
        failed=0,
        shed=0,
        offered_rate=1_000.0,
        sent_rate=1_000.0,
        throughput=Estimate(value=1_000.0, low=990.0, high=1_010.0),
        goodput=None,
        mean_in_flight=40.0,
        repeat_share=0.0,
        received_bytes_per_s=1e5,
        latency=latency_of(),
        service=latency_of(),
        first=None,
        between=None,
        pieces_per_s=None,
        errors=(),
        slices=slices_of([1_000] * 10, [1_000] * 10),
        generator=generator_of(),
        server=None,
    )
    return msgspec.structs.replace(well, **changes)
