"""Rules that void a run for what the server did: no answers, errors, death, overload, unrest, too few samples."""

from collections.abc import Iterator
from itertools import accumulate
from statistics import median

from guepard.measure.evidence import Evidence, error_share
from guepard.measure.figures import digits, percentile_text, rate_text, share_text
from guepard.measure.results import Finding, Run, Slice
from guepard.measure.saturation import OVERLOAD_SHARE

_SILENT_SUCCESSES = 10
_FEWEST_SLICES = 8


def _no_success(evidence: Evidence) -> Iterator[Finding]:
    run = evidence.run
    if not _has_success(run):
        most = max(run.errors, key=lambda error: error.count, default=None)
        reason = f"; most ended with {most.name}" if most else ""
        yield Finding(
            code="no-success",
            severity="invalid",
            reason=f"no request succeeded, of {run.failed:,} that ended{reason}",
            remedy="try one request by hand; check URL, --protocol, --model, --header and --data",
        )


def _errors(evidence: Evidence) -> Iterator[Finding]:
    run = evidence.run
    share = error_share(run)
    if _has_success(run) and share > evidence.max_error_share:
        most = max(run.errors, key=lambda error: error.count, default=None)
        kind = f", most of them {most.name}" if most else ""
        yield Finding(
            code="errors",
            severity="invalid",
            reason=f"{share_text(share)} of the requests failed{kind}, and {share_text(evidence.max_error_share)} may; "
            "errors are no answers, however fast",
            remedy="mend the errors, lower the load, or allow them with --max-errors",
        )


def _died(evidence: Evidence) -> Iterator[Finding]:
    """No success in the last part of the run, though what was due there should have brought some by now.

    Requests of a mere pause succeed later, so a slice is silent only if nothing that was due in it succeeded either.
    """
    slices = [piece for piece in evidence.run.slices if piece.start_s < evidence.run.window.end_s]
    silent = _silent_end(slices)
    before = slices[: len(slices) - len(silent)]
    succeeded = sum(piece.succeeded for piece in before)
    if not silent or not succeeded:
        return
    since = silent[0].start_s
    if evidence.run.load.loop == "open":
        expected = sum(piece.offered for piece in silent) * succeeded / max(1, sum(piece.offered for piece in before))
    else:
        expected = _waited_s(silent, evidence.run.load.concurrency or 1) * succeeded / max(1e-9, since)
    if expected >= _SILENT_SUCCESSES:
        yield Finding(
            code="server-died",
            severity="invalid",
            reason=f"after second {digits(since)} no request succeeded any more; until then "
            f"{rate_text(succeeded / max(1e-9, since - slices[0].start_s))} did",
            remedy="read the server's log at that time: it stopped, hung or refused",
        )


def _has_success(run: Run) -> bool:
    """Some succeed in a short run after the last was due: they have a latency, and are not in the throughput."""
    return run.succeeded > 0 or run.latency.count > 0


def _waited_s(silent: list[Slice], concurrency: int) -> float:
    """For how long callers of a closed loop waited in vain. After the last sending half of them must: a few that hang
    when the others are done are errors, and no dead server."""
    last = max((index for index, piece in enumerate(silent) if piece.offered), default=-1)
    return sum(
        piece.end_s - piece.start_s
        for index, piece in enumerate(silent)
        if index <= last or piece.in_flight >= concurrency / 2
    )


def _silent_end(slices: list[Slice]) -> list[Slice]:
    silent: list[Slice] = []
    for piece in reversed(slices):
        if piece.succeeded or piece.p50_ms is not None:
            break
        silent.insert(0, piece)
    return silent


def _overloaded(evidence: Evidence) -> Iterator[Finding]:
    """More was due than ended, and the difference waits. Void, not a warning: the throughput is what the server can
    do, but the latencies grow for as long as the run goes on, so no figure of them is the server's.

    What waits is compared between the last quarter and the second, since in the first the pipe fills; medians, since a
    pause is no overload. Three root n of n requests is more than a server wanders that keeps up.
    """
    run = evidence.run
    start, end = run.window.start_s, run.window.end_s
    inside = [piece for piece in run.slices if piece.start_s >= start - 1e-6 and piece.end_s <= end + 1e-6]
    if run.load.loop == "closed" or len(inside) < _FEWEST_SLICES:
        return
    waiting = list(accumulate(piece.offered - piece.succeeded - sum(piece.failed.values()) for piece in inside))
    quarter = len(inside) // 4
    rise = median(waiting[-quarter:]) - median(waiting[quarter : 2 * quarter])
    due = sum(piece.offered for piece in inside)
    if rise > max(OVERLOAD_SHARE * due / 2, 3 * (due / 2) ** 0.5):
        seconds = inside[-1].end_s - inside[0].start_s
        yield Finding(
            code="overloaded",
            severity="invalid",
            reason=f"{rate_text(due / seconds)} were due and {rate_text((due - waiting[-1]) / seconds)} ended; "
            f"{waiting[-1]:,} more waited at the end than at the start, so the latencies tell how long the run was",
            remedy="lower --rate; guepard bench --find-max looks for the most that keeps a limit",
        )


def _unsteady(evidence: Evidence) -> Iterator[Finding]:
    steadiness = evidence.run.steadiness
    if not steadiness.is_steady:
        yield Finding(
            code="unsteady",
            severity="invalid",
            reason=steadiness.says,
            remedy="look at the time line of the report; raise --duration or --warmup, and stop what else runs",
        )


def _too_few(evidence: Evidence) -> Iterator[Finding]:
    """The percentile that was asked for needs more samples than there are."""
    run, slo = evidence.run, evidence.slo
    if slo is None or not run.succeeded:
        return
    asked = run.latency.at(slo.percent)
    if asked is not None and not asked.is_supported:
        factor = max(1.5, asked.needed / run.latency.count)
        seconds = max(1.0, factor * (run.window.end_s - run.window.start_s) + run.window.start_s)
        yield Finding(
            code="too-few-samples",
            severity="invalid",
            reason=f"{percentile_text(slo.percent)} needs {asked.needed:,} samples or more; this run has "
            f"{run.latency.count:,}",
            remedy=f"measure longer, with --duration {seconds:.0f}s or more",
        )


RULES = (
    _no_success,
    _errors,
    _died,
    _overloaded,
    _unsteady,
    _too_few,
)
