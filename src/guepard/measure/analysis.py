"""What the observation of a run comes to: the window that is measured, and the figures of it.

A closed loop is measured until its last request has ended, so that slow requests are not cut off: its throughput times
its mean latency is its concurrency. But callers stop one after the other at the end, and one that hangs must not make
the others look slow: rates are those from before. An open loop is measured until its last
request was due: what came after that was no longer under load.
"""

import math
from collections.abc import Sequence

import numpy as np

from guepard.measure.histogram import Histogram
from guepard.measure.intervals import rate_interval
from guepard.measure.latency_summary import PERCENTS, summarise
from guepard.measure.load.frames import Usage
from guepard.measure.load.outcomes import is_shed, outcome_name
from guepard.measure.load.plan import LoadPlan
from guepard.measure.observation import Observation
from guepard.measure.results import ErrorCount, Estimate, GeneratorReport, Latency, Load, Run, Slice, Slo, Window
from guepard.measure.steadiness import judge
from guepard.measure.tally import Tally
from guepard.measure.totals import SliceTotals, WindowTotals
from guepard.measure.warm_up import find_warm_up

_NS = 1_000_000_000
_NS_PER_MS = 1_000_000
_BLOCKS = 40
"""Of time, for intervals."""
_DRAWN_SLICES = 120
_FOR_P90 = 10
_FOR_P99 = 100
_USUAL_PERCENT = 99.0
_MANY_ANSWERS = 15
"""Of each caller. What it is in the middle of when the last request is sent is then little."""


def analyse(
    plan: LoadPlan,
    observation: Observation,
    usages: Sequence[Usage],
    *,
    name: str,
    target: int,
    started_s: float,
    slo: Slo | None,
    warm_up_s: float | None,
    self_test_rate: float | None,
) -> Run:
    """The run, not judged yet. `warm_up_s`: None finds its end."""
    tally = observation.tally
    window = _window(plan, observation, warm_up_s)
    loaded_s = _loaded_s(plan, observation, window)
    totals = tally.window(window.start_s, window.end_s)
    blocks = tally.blocks(window.start_s, loaded_s, _BLOCKS)
    slo_percent = slo.percent if slo else _USUAL_PERCENT
    duration_s = _duration_s(plan, observation, window, totals.offered)
    is_stream = totals.first.count > 0
    return Run(
        name=name,
        target=target,
        started_s=started_s,
        load=_load(plan),
        is_valid=True,
        findings=(),
        window=window,
        steadiness=judge(*observation.successes.columns(), _in_ns(window.start_s, loaded_s), slo_percent / 100),
        offered=totals.offered,
        succeeded=totals.succeeded,
        failed=totals.failed_count,
        shed=sum(count for outcome, count in totals.failed.items() if is_shed(outcome)),
        offered_rate=totals.offered / duration_s,
        sent_rate=totals.sent / duration_s,
        throughput=_throughput(tally, window.start_s, loaded_s, totals.succeeded / duration_s),
        goodput=_within(totals.latency, slo) / duration_s if slo else None,
        mean_in_flight=_mean_in_flight(plan, tally, totals, loaded_s, duration_s),
        repeat_share=totals.repeat_share,
        received_bytes_per_s=totals.received_bytes / duration_s,
        latency=summarise(totals.latency, blocks, sorted({*PERCENTS, slo_percent})),
        service=summarise(totals.service, ()),
        first=summarise(totals.first, ()) if is_stream else None,
        between=summarise(totals.between, ()) if is_stream else None,
        pieces_per_s=totals.pieces / duration_s if is_stream else None,
        errors=tuple(_errors(totals)),
        slices=_slices(tally),
        generator=_generator(observation, usages, totals, self_test_rate),
        server=None,
    )


def _window(plan: LoadPlan, observation: Observation, warm_up_s: float | None) -> Window:
    tally = observation.tally
    slice_s = tally.slice_s
    # A border belongs to what comes after it, and the last request to the run.
    last_s = observation.last_due_s if plan.arrivals else observation.last_end_s
    whole = (math.floor(last_s / slice_s + 1e-6) + 1) * slice_s
    if warm_up_s is not None:
        start_s = min(round(warm_up_s / slice_s) * slice_s, whole - slice_s)
        says = f"the first {start_s:g} s, as asked" if start_s else "nothing was cut off, as asked"
    else:
        slices = tally.slices(slice_s, 0, _last_full_s(plan, observation, whole))
        medians_ns = [each.latency.quantile(0.5) if each.latency.count else math.nan for each in slices]
        found = find_warm_up(np.array([each.succeeded for each in slices]), np.array(medians_ns), slice_s)
        start_s, says = found.end_s, found.says
    return Window(start_s=start_s, end_s=whole, warm_up=says)


def _last_full_s(plan: LoadPlan, observation: Observation, end_s: float) -> float:
    """Until when the whole load was there: from the last sending on, callers of a closed loop stop one by one."""
    if plan.arrivals:
        return end_s
    slice_s = observation.tally.slice_s
    return max(1, math.floor(observation.last_due_s / slice_s + 1e-6)) * slice_s


def _loaded_s(plan: LoadPlan, observation: Observation, window: Window) -> float:
    """The same, within the window."""
    return max(_last_full_s(plan, observation, window.end_s), window.start_s + observation.tally.slice_s)


def _in_ns(start_s: float, end_s: float) -> tuple[int, int]:
    return round(start_s * _NS), round(end_s * _NS)


def _duration_s(plan: LoadPlan, observation: Observation, window: Window, offered: int) -> float:
    """How long the load of the window really lasted: it may end anywhere in the last slice."""
    whole_s = window.end_s - window.start_s
    if plan.arrivals:
        # Each of the requests stands for the gap that follows it.
        due_s = observation.last_due_s - window.start_s
        return min(whole_s, due_s * offered / (offered - 1)) if offered > 1 and due_s > 0 else whole_s
    return _callers_s(plan, observation, window) if observation.count else whole_s


def _callers_s(plan: LoadPlan, observation: Observation, window: Window) -> float:
    """How long all callers of a closed loop together would have taken for what they got, though they stop one by one.

    After many answers each, as long as at the rate until the last sending. After few, time counts by the share of
    callers that still wait: then throughput times mean latency is their number to the digit, but where they only wait
    for one another it comes out too high, by half a request of each.
    """
    ended_ns, _, _ = observation.successes.columns()
    ended_ns = ended_ns[ended_ns >= window.start_s * _NS]
    early = int((ended_ns <= observation.last_due_s * _NS).sum())
    if early >= _MANY_ANSWERS * plan.concurrency:
        return (observation.last_due_s - window.start_s) * len(ended_ns) / early
    full_s = max(_last_full_s(plan, observation, window.end_s), window.start_s)
    if full_s >= window.end_s:
        return max(observation.last_end_s - window.start_s, 1e-6)
    rest = observation.tally.window(full_s, window.end_s)
    return max(full_s - window.start_s + rest.mean_in_flight * rest.duration_s / plan.concurrency, 1e-6)


def _mean_in_flight(plan: LoadPlan, tally: Tally, totals: WindowTotals, loaded_s: float, duration_s: float) -> float:
    if plan.arrivals or not totals.offered:
        return totals.mean_in_flight * totals.duration_s / duration_s
    return tally.window(totals.start_s, loaded_s).mean_in_flight


def _throughput(tally: Tally, start_s: float, end_s: float, value: float) -> Estimate:
    """The interval comes from equal blocks of time; the value from the whole window."""
    slices = tally.slices(max((end_s - start_s) / _BLOCKS, tally.slice_s), start_s, end_s)
    longest_s = max(each.end_s - each.start_s for each in slices)
    rates = [each.succeeded / longest_s for each in slices if each.end_s - each.start_s > longest_s - tally.slice_s / 2]
    interval = rate_interval(rates)
    if interval.low is None or interval.high is None:
        return Estimate(value=value, low=None, high=None)
    reach = (interval.high - interval.low) / 2
    return Estimate(value=value, low=max(value - reach, 0.0), high=value + reach)


def _within(latency: Histogram, slo: Slo) -> int:
    return latency.count_at_or_below(round(slo.limit_ms * _NS_PER_MS))


def _errors(totals: WindowTotals) -> list[ErrorCount]:
    """By how many there were. A failure that was due in the window may have ended after it, and the other way round."""
    outcomes = sorted(totals.failed, key=lambda outcome: -totals.failed[outcome])
    return [
        ErrorCount(
            outcome=outcome,
            name=outcome_name(outcome),
            count=totals.failed[outcome],
            latency=summarise(totals.failure_latency.get(outcome, Histogram()), ()),
        )
        for outcome in outcomes
    ]


def _slices(tally: Tally) -> tuple[Slice, ...]:
    if not tally.end_s:
        return ()
    width_s = math.ceil(tally.end_s / _DRAWN_SLICES / tally.slice_s) * tally.slice_s
    return tuple(_slice(each) for each in tally.slices(width_s, 0, tally.end_s))


def _slice(totals: SliceTotals) -> Slice:
    latency = totals.latency

    def quantile_ms(q: float, least: int) -> float | None:
        return latency.quantile(q) / _NS_PER_MS if latency.count >= least else None

    return Slice(
        start_s=totals.start_s,
        end_s=totals.end_s,
        offered=totals.offered,
        succeeded=totals.succeeded,
        failed={outcome_name(outcome): count for outcome, count in totals.failed.items()},
        p50_ms=quantile_ms(0.5, 1),
        p90_ms=quantile_ms(0.9, _FOR_P90),
        p99_ms=quantile_ms(0.99, _FOR_P99),
        max_ms=latency.max_value / _NS_PER_MS if latency.count else None,
        in_flight=totals.in_flight,
    )


def _generator(
    observation: Observation, usages: Sequence[Usage], totals: WindowTotals, self_test_rate: float | None
) -> GeneratorReport:
    waits = [usage.runqueue_wait_ns for usage in usages]
    known = [wait for wait in waits if wait is not None]
    wall_ns = sum(usage.wall_ns for usage in usages)
    cpu_ns = sum(usage.cpu_ns for usage in usages)
    return GeneratorReport(
        processes=len(usages),
        cpu_s=cpu_ns / _NS,
        cpu_share=max((usage.cpu_ns / usage.wall_ns for usage in usages), default=0.0),
        cpu_us_per_request=cpu_ns / 1_000 / max(observation.count, 1),
        runqueue_wait_share=sum(known) / wall_ns if known and wall_ns else None,
        send_lag=summarise(totals.send_lag, ()),
        loop_lag=summarise(observation.turns, ()),
        connections_opened=observation.connects.count,
        connect=_known(observation.connects),
        tls=_known(observation.handshakes),
        blocked_share=totals.blocked / max(totals.offered, 1),
        priority=min((usage.priority for usage in usages), default=0),
        self_test_rate=self_test_rate,
    )


def _known(histogram: Histogram) -> Latency | None:
    return summarise(histogram, ()) if histogram.count else None


def _load(plan: LoadPlan) -> Load:
    arrivals = plan.arrivals
    return Load(
        loop="open" if arrivals else "closed",
        arrivals=str(arrivals or "closed loop"),
        rate=arrivals.mean_rate(plan.duration_ns) if arrivals else None,
        concurrency=plan.concurrency or None,
        duration_s=plan.duration_ns / _NS,
        requests=plan.requests,
        timeout_s=plan.timeout_ns / _NS,
        max_connections=plan.max_connections,
        processes=plan.processes,
        seed=plan.seed,
    )
