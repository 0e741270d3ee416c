"""Is this result worse than an earlier one, or B worse than A? Made for continuous integration.

A figure fails where it is *certainly* worse by more than the limit: where the whole 95 % interval of the ratio lies
beyond. Where the limit lies within the interval nobody can tell; that passes and says so, for a gate that fails by
chance is soon switched off. The interval knows what varies within the two runs. What differs from one start of a server
to the next it cannot know, so that a limit of a few percent needs `--compare`, which measures both in turns.
"""

from collections.abc import Iterable, Iterator

from guepard.bench.likeness import refuse_unlike, same_machine
from guepard.bench.reading import headline_run, verdict
from guepard.bench.regression import RAISE, Failures, judge_failures, judge_ratio, worsened
from guepard.measure.figures import ms_text, percentile_text, rate_text, share_text
from guepard.measure.results import Comparison, Document, Estimate, Gate, Machine, Run

_USUAL_PERCENT = 99.0
_EQUAL = Estimate(value=1.0, low=1.0, high=1.0)
_B = 1


def hold_gate(document: Document, baseline: Document | None, limit: float) -> tuple[Gate, ...]:
    """What `document` comes to beside `baseline`, a figure each; without one, B beside A. `limit` is a share.

    Figures of a run that may not be believed are not compared. Those of different machines are not either, unless they
    are ratios: of a comparison, or of errors to requests.
    Raises: ConfigurationError where the two did not measure the same: other payloads, another load or question.
    """
    if baseline is not None:
        refuse_unlike(document, baseline)
    doubt = _doubt(document, baseline)
    if doubt is not None:
        return (doubt,)
    if document.comparisons:
        return tuple(_comparisons(document, baseline, limit))
    assert baseline is not None, "without a comparison there is a baseline"
    other = None if same_machine(document.machine, baseline.machine) else baseline.machine
    if document.edge is not None:
        return tuple(_edges(document, baseline, limit, other))
    return tuple(_loads(document, baseline, limit, other))


def _doubt(document: Document, baseline: Document | None) -> Gate | None:
    """The gate that fails where one of the two may not be believed."""
    for name, each in (("baseline", baseline), ("result", document)):
        if each is None:
            continue
        judged = verdict(each)
        if judged.is_valid and not each.interrupted:
            continue
        why = "it was interrupted" if each.interrupted else f"it is {judged.word}: {judged.reason}"
        advice = "make it again with --out" if name == "baseline" else judged.remedy or "run it again"
        return Gate(
            name=f"{name} is valid", baseline=1.0, measured=0.0, limit=1.0, passed=False, says=f"{why}; {advice}"
        )
    return None


def _comparisons(document: Document, baseline: Document | None, limit: float) -> Iterator[Gate]:
    """B against A now, beside B against A then, or beside A: all are ratios, so the machine does not matter."""
    then = {each.metric: each for each in baseline.comparisons} if baseline else {}
    for comparison in document.comparisons:
        if baseline is None or comparison.metric in then:
            yield _compared(comparison, then.get(comparison.metric), limit)
    b = [run for run in document.runs if run.target == _B]
    others = document.runs if baseline is None else baseline.runs
    yield _errors(b, [run for run in others if (run.target == _B) == (baseline is not None)], limit)


def _compared(now: Comparison, before: Comparison | None, limit: float) -> Gate:
    more_is_better = now.metric == "throughput"
    now_is, was = _share_of_a(now), _share_of_a(before) if before else _EQUAL
    ratio = worsened(was, now_is) if more_is_better else worsened(now_is, was)
    figures = f"B is at {share_text(now_is.value)} of A"
    if before is not None:
        figures += f", was at {share_text(was.value)}"
    passed, says = judge_ratio(ratio, limit, figures)
    return Gate(
        name=f"{now.metric} of B as a share of A",
        baseline=was.value,
        measured=now_is.value,
        limit=was.value / (1 + limit) if more_is_better else was.value * (1 + limit),
        passed=passed,
        says=says,
    )


def _share_of_a(comparison: Comparison) -> Estimate:
    difference = comparison.difference
    return Estimate(
        value=1 + difference.value,
        low=None if difference.low is None else 1 + difference.low,
        high=None if difference.high is None else 1 + difference.high,
    )


def _edges(document: Document, baseline: Document, limit: float, other: Machine | None) -> Iterator[Gate]:
    """The rates that two searches found. A baseline that found none bounds nothing."""
    assert document.edge is not None
    assert baseline.edge is not None
    now, before = document.edge.rate, baseline.edge.rate
    if before is None:
        return
    if now is not None:
        yield _figure("highest rate, 1/s", now, before, limit, other, is_rate=True)
        return
    yield Gate(
        name="highest rate, 1/s",
        baseline=before.value,
        measured=0.0,
        limit=before.value / (1 + limit),
        passed=False,
        says=f"no rate keeps the goal any more: {document.edge.says}",
    )


def _loads(document: Document, baseline: Document, limit: float, other: Machine | None) -> Iterator[Gate]:
    run, base = headline_run(document), headline_run(baseline)
    assert run is not None, "a valid result has a run"
    assert base is not None, "a valid result has a run"
    percent = document.slo.percent if document.slo else _USUAL_PERCENT
    for each in sorted({50.0, percent}):
        yield _percentile(run, base, each, limit, other)
    if run.load.loop == "closed":
        yield _figure("throughput, 1/s", run.throughput, base.throughput, limit, other, is_rate=True)
    yield _errors([run], [base], limit)


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
            says=f"cannot tell: too few samples for {percentile_text(percent)}; {RAISE}",
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
        passed, says = judge_ratio(worsened(before, now) if is_rate else worsened(now, before), limit, figures)
    most = before.value / (1 + limit) if is_rate else before.value * (1 + limit)
    return Gate(name=name, baseline=before.value, measured=now.value, limit=most, passed=passed, says=says)


def _errors(runs: Iterable[Run], others: Iterable[Run], limit: float) -> Gate:
    now, before = _failures(runs), _failures(others)
    outcome = judge_failures(now, before, limit)
    return Gate(
        name="error share",
        baseline=before.share,
        measured=now.share,
        limit=outcome.limit,
        passed=outcome.passed,
        says=outcome.says,
    )


def _failures(runs: Iterable[Run]) -> Failures:
    counts = [(run.failed, run.failed + run.succeeded) for run in runs]
    return Failures(sum(failed for failed, _ in counts), sum(ended for _, ended in counts))
