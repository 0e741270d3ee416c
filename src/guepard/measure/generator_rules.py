"""Rules that find a load generator at its limit: then the figures are its own, not the server's.

Sources: wrk2 (giltene/wrk2, README) on latency from the intended time; k6's `dropped_iterations` on load that was due
and never sent."""

from collections.abc import Iterator

from guepard.measure.evidence import Evidence, lag_limit_ms
from guepard.measure.figures import ms_text, rate_text, share_text
from guepard.measure.results import Finding

_SENT_SHARE = 0.99
_BUSY = 0.95
_STARVED = 0.10
_BLOCKED = 0.01
_SELF_TEST_FACTOR = 2.0


def _send_lag(evidence: Evidence) -> Iterator[Finding]:
    run = evidence.run
    lag, limit = run.generator.send_lag.at(99), lag_limit_ms(run, evidence.slo)
    if lag is not None and lag.value_ms > limit:
        yield Finding(
            code="send-lag",
            severity="invalid",
            reason=f"requests left late: the p99 send lag is {ms_text(lag.value_ms)}, and {ms_text(limit)} is the most "
            "that leaves the latencies true",
            remedy="add --processes, lower --rate, or run guepard bench on a machine with idle cores",
        )


def _shortfall(evidence: Evidence) -> Iterator[Finding]:
    """Requests that an open loop should have sent and did not. What waited for a free connection is the server's."""
    run = evidence.run
    if run.load.loop == "closed" or not run.offered_rate:
        return
    sent = run.sent_rate / run.offered_rate + run.generator.blocked_share
    if sent < _SENT_SHARE:
        yield Finding(
            code="generator-shortfall",
            severity="invalid",
            reason=f"the generator sent {rate_text(run.sent_rate)} of the {rate_text(run.offered_rate)} that were due",
            remedy="add --processes or lower --rate",
        )


def _saturated(evidence: Evidence) -> Iterator[Finding]:
    run = evidence.run
    busy = run.generator.cpu_share
    if run.load.loop == "closed" and busy >= _BUSY:
        yield Finding(
            code="generator-saturated",
            severity="invalid",
            reason=f"the busiest generator process used {share_text(busy)} of a core, so the throughput is the "
            "generator's",
            remedy="add --processes, or lower --concurrency",
        )


def _starved(evidence: Evidence) -> Iterator[Finding]:
    """Waiting for a CPU alone does no harm while the generator is on time, so lag must show as well.

    Or requests that found every connection busy: their answers may have come and not been read. Then latencies are
    the generator's, and so long that a lag looks little beside them.
    """
    generator = evidence.run.generator
    waited = generator.runqueue_wait_share
    if waited is None or waited <= _STARVED:
        return
    lags = [lag.value_ms for lag in (generator.send_lag.at(99), generator.loop_lag.at(99)) if lag]
    if lags and (max(lags) > lag_limit_ms(evidence.run, evidence.slo) / 2 or generator.blocked_share > _BLOCKED):
        yield Finding(
            code="generator-starved",
            severity="invalid",
            reason=f"other programs kept the generator off the CPU for {share_text(waited)} of the time, and its p99 "
            f"lag is {ms_text(max(lags))}",
            remedy="stop what else runs here, pin server and generator to different cores, or use another machine",
        )


def _self_test(evidence: Evidence) -> Iterator[Finding]:
    run = evidence.run
    reached = run.generator.self_test_rate
    needed = _SELF_TEST_FACTOR * max(run.sent_rate, run.throughput.value)
    if reached is not None and reached < needed:
        yield Finding(
            code="self-test-slow",
            severity="invalid",
            reason=f"against a server that does nothing this generator reaches {rate_text(reached)}, less than twice "
            f"the {rate_text(needed / _SELF_TEST_FACTOR)} of this run",
            remedy="add --processes, or lower --rate or --concurrency",
        )


RULES = (
    _send_lag,
    _shortfall,
    _saturated,
    _starved,
    _self_test,
)
