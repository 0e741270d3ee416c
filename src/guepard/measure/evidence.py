"""What the rules of validity look at: a run that is not judged yet, and what it was asked to show."""

from msgspec import Struct

from guepard.measure.results import Run, Slo

_LAG_FLOOR_MS = 1.0
_LAG_SHARE = 0.05


class Evidence(Struct, frozen=True, kw_only=True):
    """`same_machine`: target and generator share it."""

    run: Run
    same_machine: bool
    slo: Slo | None = None
    max_error_share: float = 0.01


def error_share(run: Run) -> float:
    """Of the requests that ended in the window; 0 if there were none."""
    ended = run.succeeded + run.failed
    return run.failed / ended if ended else 0.0


def lag_limit_ms(run: Run, slo: Slo | None) -> float:
    """The p99 send lag that a run may have: 1 ms, 5 % of the p50 latency or of the goal's limit, whichever is most."""
    median = run.latency.at(50)
    shares = [_LAG_SHARE * median.value_ms] if median else []
    if slo is not None:
        shares.append(_LAG_SHARE * slo.limit_ms)
    return max(_LAG_FLOOR_MS, *shares, 0.0)
