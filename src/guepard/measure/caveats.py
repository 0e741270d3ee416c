"""Rules that leave a run valid and say what its figures do not mean."""

from collections.abc import Iterator

from guepard.measure.evidence import Evidence
from guepard.measure.figures import percentile_text, share_text
from guepard.measure.load.outcomes import outcome_name
from guepard.measure.results import Finding

_USUAL_PERCENT = 99.0
_LONG_WARM_UP = 0.30
_BLOCKED = 0.01
_REPEATS = 0.5
_CONNECTS = 0.8
_FEWEST_REQUESTS = 100


def _unsupported(evidence: Evidence) -> Iterator[Finding]:
    latency = evidence.run.latency
    asked = evidence.slo.percent if evidence.slo else None
    grey = [each.percent for each in latency.percentiles if not each.is_supported and each.percent != asked]
    if grey and evidence.run.succeeded:
        names = ", ".join(percentile_text(percent) for percent in grey)
        yield Finding(
            code="unsupported-percentiles",
            severity="warning",
            reason=f"{latency.count:,} samples are too few for {names}",
            remedy="do not quote these, or raise --duration",
        )


def _open_interval(evidence: Evidence) -> Iterator[Finding]:
    """The percentile that counts has an interval without an end: latencies are too alike for what is between them."""
    latency = evidence.run.latency
    asked = latency.at(evidence.slo.percent if evidence.slo else _USUAL_PERCENT)
    if asked is not None and asked.is_supported and (asked.low_ms is None or asked.high_ms is None):
        yield Finding(
            code="open-interval",
            severity="warning",
            reason=f"nobody can tell how far {percentile_text(asked.percent)} may be off: the {latency.count:,} "
            f"samples come in clumps, and are worth {latency.effective_count:,} independent ones",
            remedy="raise --duration, and stop what else runs on the machine",
        )


def _same_machine(evidence: Evidence) -> Iterator[Finding]:
    if evidence.same_machine:
        yield Finding(
            code="same-machine",
            severity="warning",
            reason="server and generator share this machine, its CPUs and caches, and no network lies between them",
            remedy="compare such runs with each other only; for absolute figures use a second machine",
        )


def _repeats(evidence: Evidence) -> Iterator[Finding]:
    run = evidence.run
    hits = run.server.cache_hit_share if run.server else None
    if run.repeat_share <= _REPEATS or hits == 0:
        return
    known = "a cache may have answered" if hits is None else f"the server's cache answered {share_text(hits)} of all"
    yield Finding(
        code="repeated-inputs",
        severity="warning",
        reason=f"{share_text(run.repeat_share)} of the requests were sent before with the same content; {known}",
        remedy="use --inputs unique, or --inputs zipf:1.1 for a realistic share",
    )


def _blocked(evidence: Evidence) -> Iterator[Finding]:
    generator, load = evidence.run.generator, evidence.run.load
    if generator.blocked_share > _BLOCKED:
        yield Finding(
            code="connections-busy",
            severity="warning",
            reason=f"{share_text(generator.blocked_share)} of the requests had to wait for one of the "
            f"{load.max_connections:,} connections; their latency counts that wait",
            remedy="raise --connections if real clients are more than that",
        )


def _long_warm_up(evidence: Evidence) -> Iterator[Finding]:
    window = evidence.run.window
    share = window.start_s / window.end_s if window.end_s > 0 else 0.0
    if share > _LONG_WARM_UP:
        yield Finding(
            code="long-warm-up",
            severity="warning",
            reason=f"{share_text(share)} of the run was cut off as warm-up ({window.warm_up})",
            remedy="raise --duration, so that more of the run counts",
        )


def _closed_loop(evidence: Evidence) -> Iterator[Finding]:
    load = evidence.run.load
    if load.loop == "closed":
        callers = "caller that waits" if load.concurrency == 1 else "callers that wait"
        yield Finding(
            code="closed-loop",
            severity="note",
            reason=f"{load.concurrency} {callers} for each answer: when the server stalls they stop asking, so the "
            "percentiles are not what independent users see",
            remedy="use --rate for latencies, --concurrency for throughput",
        )


def _redirects(evidence: Evidence) -> Iterator[Finding]:
    moved = [error for error in evidence.run.errors if 300 <= error.outcome < 400]
    if moved:
        names = ", ".join(outcome_name(error.outcome) for error in moved)
        yield Finding(
            code="redirects",
            severity="warning",
            reason=f"{sum(error.count for error in moved):,} answers were redirects ({names}); they are not followed "
            "and count as errors",
            remedy="write the URL that they lead to; curl -i shows it under Location",
        )


def _reconnects(evidence: Evidence) -> Iterator[Finding]:
    run = evidence.run
    sent = sum(piece.offered for piece in run.slices)
    if sent >= _FEWEST_REQUESTS and run.generator.connections_opened > _CONNECTS * sent:
        yield Finding(
            code="no-keep-alive",
            severity="warning",
            reason=f"{run.generator.connections_opened:,} connections were opened for {sent:,} requests, so "
            "the latencies hold the time to connect",
            remedy="let the server keep connections open, or read the figures as those of new clients",
        )


RULES = (
    _unsupported,
    _open_interval,
    _same_machine,
    _repeats,
    _blocked,
    _long_warm_up,
    _closed_loop,
    _redirects,
    _reconnects,
)
