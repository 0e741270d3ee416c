"""Is this result worse than an earlier one? `--gate baseline.json`, made for continuous integration.

A figure fails where it is *certainly* worse by more than the limit: where the whole 95 % interval of the ratio lies
beyond. Where the limit lies within the interval nobody can tell; that passes and says so, for a gate that fails by
chance is soon switched off. The interval knows what varies within the two runs. What differs from one start of a server
to the next it cannot know, so that a limit of a few percent needs `--compare`, which measures both in turns.

Source: the interval of the ratio is that of a difference of logarithms from two separate intervals; G. Y. Zou and
A. Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27 (2008). So is that of
two shares, from the intervals of C. J. Clopper and E. S. Pearson, Biometrika 26 (1934).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from guepard.bench.likeness import refuse_unlike, same_machine
from guepard.bench.reading import headline_run, verdict
from guepard.measure.distributions import beta_probability
from guepard.measure.figures import ms_text, percentile_text, rate_text, share_text
from guepard.measure.results import Comparison, Document, Estimate, Gate, Machine, Run

_MORE_ERRORS = 0.001
"""What the share of errors may rise by, beside the limit: one in a thousand."""
_USUAL_PERCENT = 99.0
_RAISE = "raise --duration to tell"


class Ratio(NamedTuple):
    """How much worse, as a share: 0.1 is 10 % worse, below 0 is better. A bound is None where nothing is known."""

    value: float
    low: float | None
    high: float | None


def hold_gate(document: Document, baseline: Document, limit: float) -> tuple[Gate, ...]:
    """What `document` comes to beside `baseline`, a figure each. `limit` is a share.

    Figures of a run that may not be believed are not compared. Those of different machines are not either, unless they
    are ratios: of a comparison, or of errors to requests.
    Raises: ConfigurationError where the two did not measure the same: other payloads, another load or question.
    """
    refuse_unlike(document, baseline)
    doubt = _doubt(document, baseline)
    if doubt is not None:
        return (doubt,)
    other = None if same_machine(document.machine, baseline.machine) else baseline.machine
    return tuple(_gates(document, baseline, limit, other))


def _doubt(document: Document, baseline: Document) -> Gate | None:
    """The gate that fails where one of the two may not be believed."""
    for name, each in (("baseline", baseline), ("result", document)):
        judged = verdict(each)
        if judged.is_valid and not each.interrupted:
            continue
        why = "it was interrupted" if each.interrupted else f"it is {judged.word}: {judged.reason}"
        advice = "make it again with --out" if name == "baseline" else judged.remedy or "run it again"
        return Gate(
            name=f"{name} is valid", baseline=1.0, measured=0.0, limit=1.0, passed=False, says=f"{why}; {advice}"
        )
    return None


def _gates(document: Document, baseline: Document, limit: float, other: Machine | None) -> Iterator[Gate]:
    run, base = headline_run(document), headline_run(baseline)
    assert run is not None, "a valid result has a run"
    assert base is not None, "a valid result has a run"
    if document.comparisons:
        then = {each.metric: each for each in baseline.comparisons}
        for comparison in document.comparisons:
            if comparison.metric in then:
                yield _compared(comparison, then[comparison.metric], limit)
    elif document.edge is not None and baseline.edge is not None:
        now, before = document.edge.rate, baseline.edge.rate
        if before is None:
            return
        if now is None:
            yield Gate(
                name="highest rate, 1/s",
                baseline=before.value,
                measured=0.0,
                limit=before.value / (1 + limit),
                passed=False,
                says=f"no rate keeps the goal any more: {document.edge.says}",
            )
            return
        yield _figure("highest rate, 1/s", now, before, limit, other, is_rate=True)
    else:
        slo = document.slo or baseline.slo
        for percent in sorted({50.0, slo.percent if slo else _USUAL_PERCENT}):
            yield _percentile(run, base, percent, limit, other)
        if run.load.loop == "closed":
            yield _figure("throughput, 1/s", run.throughput, base.throughput, limit, other, is_rate=True)
    yield _errors(run, base, limit)


def _percentile(run: Run, base: Run, percent: float, limit: float, other: Machine | None) -> Gate:
    name = f"{percentile_text(percent)} latency, ms"
    now, before = run.latency.at(percent), base.latency.at(percent)
    if now is None or before is None or not (now.is_supported and before.is_supported):
        return Gate(
            name=name,
            baseline=before.value_ms if before else 0.0,
            measured=now.value_ms if now else 0.0,
            limit=before.value_ms * (1 + limit) if before else 0.0,
            passed=True,
            says=f"cannot tell: too few samples for {percentile_text(percent)}; {_RAISE}",
        )
    return _figure(
        name,
        Estimate(value=now.value_ms, low=now.low_ms, high=now.high_ms),
        Estimate(value=before.value_ms, low=before.low_ms, high=before.high_ms),
        limit,
        other,
        is_rate=False,
    )


def _figure(name: str, now: Estimate, before: Estimate, limit: float, other: Machine | None, *, is_rate: bool) -> Gate:
    """A latency, of which more is worse, or a rate, of which less is."""
    text = rate_text if is_rate else ms_text
    figures = f"{text(now.value)}, was {text(before.value)}"
    if other is not None:
        passed, says = True, f"cannot tell: {figures}, but on another machine ({other.cpu}, {other.cores} cores)"
    else:
        passed, says = _judge(worsened(before, now) if is_rate else worsened(now, before), limit, figures)
    most = before.value / (1 + limit) if is_rate else before.value * (1 + limit)
    return Gate(name=name, baseline=before.value, measured=now.value, limit=most, passed=passed, says=says)


def _compared(now: Comparison, before: Comparison, limit: float) -> Gate:
    """B against A now, beside B against A then: both are ratios, so the machine does not matter."""
    more_is_better = now.metric == "throughput"
    ratios = [
        Estimate(
            value=1 + each.difference.value,
            low=None if each.difference.low is None else 1 + each.difference.low,
            high=None if each.difference.high is None else 1 + each.difference.high,
        )
        for each in (now, before)
    ]
    ratio = worsened(*(reversed(ratios) if more_is_better else ratios))
    now_is, was = (each.value for each in ratios)
    passed, says = _judge(ratio, limit, f"B is at {share_text(now_is)} of A, was at {share_text(was)}")
    return Gate(
        name=f"{now.metric} of B as a share of A",
        baseline=was,
        measured=now_is,
        limit=was / (1 + limit) if more_is_better else was * (1 + limit),
        passed=passed,
        says=says,
    )


def worsened(worse_if_more: Estimate, than: Estimate) -> Ratio:
    """The one over the other, less 1, with its interval."""
    if worse_if_more.value <= 0 or than.value <= 0:
        return Ratio(0.0, None, None)
    centre = math.log(worse_if_more.value / than.value)
    down = _reach(_down(worse_if_more), _up(than))
    up = _reach(_up(worse_if_more), _down(than))
    return Ratio(
        math.expm1(centre),
        None if down is None else math.expm1(centre - down),
        None if up is None else math.expm1(centre + up),
    )


def _down(estimate: Estimate) -> float | None:
    return None if not estimate.low or estimate.low < 0 else math.log(estimate.value / estimate.low)


def _up(estimate: Estimate) -> float | None:
    return None if estimate.high is None else math.log(estimate.high / estimate.value)


def _reach(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else math.hypot(one, other)


def _judge(ratio: Ratio, limit: float, figures: str) -> tuple[bool, str]:
    if ratio.low is None or ratio.high is None:
        return True, f"cannot tell: {figures}, and there are too few samples for an interval; {_RAISE}"
    span = f"{_signed(ratio.low)} to {_signed(ratio.high)}"
    if ratio.low > limit:
        return False, f"worse: {figures}, which is {_signed(ratio.value)} ({span}); {share_text(limit)} may be lost"
    if ratio.high > limit:
        return True, f"cannot tell: {figures}; worse by {span}, and {share_text(limit)} lies within; {_RAISE}"
    word = "better" if ratio.high < 0 else "within the limit"
    return True, f"{word}: {figures} ({span} worse)"


def _errors(run: Run, base: Run, limit: float) -> Gate:
    now, before = (each.failed / max(1, each.failed + each.succeeded) for each in (run, base))
    allowed = before * limit + _MORE_ERRORS
    low, high = _difference(run.failed, run.failed + run.succeeded, base.failed, base.failed + base.succeeded)
    figures = f"{share_text(now)} of the requests failed, {share_text(before)} did before"
    if low > allowed:
        passed, says = False, f"worse: {figures}; they may rise by {share_text(allowed)} of all requests"
    elif high > allowed:
        passed, says = True, f"cannot tell: {figures}; there are too few requests for so small a share; {_RAISE}"
    else:
        passed, says = True, f"within the limit: {figures}"
    return Gate(name="error share", baseline=before, measured=now, limit=before + allowed, passed=passed, says=says)


def _difference(failed: int, count: int, failed_before: int, count_before: int) -> tuple[float, float]:
    """The 95 % interval of the difference of two shares."""
    low, share, high = _exact(failed, count)
    low_before, share_before, high_before = _exact(failed_before, count_before)
    centre = share - share_before
    return (
        centre - math.hypot(share - low, high_before - share_before),
        centre + math.hypot(high - share, share_before - low_before),
    )


def _exact(failed: int, count: int) -> tuple[float, float, float]:
    """A share between the bounds of its exact 95 % interval, which a single failure does not lift far."""
    if not count:
        return 0.0, 0.0, 1.0
    low = _quantile(0.025, failed, count - failed + 1) if failed else 0.0
    high = _quantile(0.975, failed + 1, count - failed) if failed < count else 1.0
    return low, failed / count, high


def _quantile(probability: float, a: float, b: float) -> float:
    """Of the beta distribution, by halving."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if beta_probability(a, b, middle) < probability else (low, middle)
    return (low + high) / 2


def _signed(share: float) -> str:
    return f"{share * 100:+.1f} %"
