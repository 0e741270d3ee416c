"""How a result is read: which run speaks for it, whose runs are A's and B's, and whether it may be believed."""

from collections.abc import Sequence
from dataclasses import dataclass

from guepard.bench import figures
from guepard.measure.figures import percentile_text
from guepard.measure.histogram import Histogram
from guepard.measure.latency_summary import histogram_of
from guepard.measure.results import Document, Edge, Finding, Latency, PayloadReport, Run, Target
from guepard.measure.validity import blames_generator

_ORDER = {"invalid": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Side:
    """The runs against one target of a comparison."""

    letter: str
    target: Target
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the figures may be believed. `findings` come worst first, with the names of their runs."""

    is_valid: bool
    word: str
    reason: str
    remedy: str
    cause: Finding | None
    findings: tuple[tuple[str, Finding], ...]

    @property
    def others(self) -> tuple[tuple[str, Finding], ...]:
        """The findings less the one that is the reason."""
        return tuple(pair for pair in self.findings if pair[1] is not self.cause)


def by_code(findings: Sequence[tuple[str, Finding]]) -> list[tuple[tuple[str, ...], Finding]]:
    """The first finding of each code and severity, with the names of all runs that have one: many runs mostly share
    their findings, but for the figures."""
    first: dict[tuple[str, str], Finding] = {}
    names: dict[tuple[str, str], list[str]] = {}
    for name, finding in findings:
        key = (finding.severity, finding.code)
        first.setdefault(key, finding)
        names.setdefault(key, []).append(name)
    return [(tuple(names[key]), finding) for key, finding in first.items()]


def headline_run(document: Document) -> Run | None:
    """The run whose figures are shown first: of a search, the one at the rate that was found.

    Where not even the lowest rate kept the SLO it is that one; otherwise the first.
    """
    if not document.runs:
        return None
    if document.edge is None:
        return document.runs[0]
    if document.edge.rate is None:
        return min(document.runs, key=asked_rate)
    found = document.edge.rate.value
    # The run that confirms the edge is the longest at its rate, and where it had to be repeated the last of these.
    return min(reversed(document.runs), key=lambda run: (abs(asked_rate(run) - found), -run.load.duration_s))


def asked_rate(run: Run) -> float:
    """Requests per second that the run was to send; what came of it where a closed loop had no rate."""
    return run.load.rate if run.load.rate is not None else run.offered_rate


def run_state(document: Document, run: Run) -> str:
    """`valid` or `INVALID`; of a search `kept` or `missed`, for there a run over the edge is as good as one below."""
    edge = document.edge
    if edge is None or blames_generator(run):
        return "valid" if run.is_valid else "INVALID"
    if edge.rate is not None and asked_rate(run) <= edge.rate.value:
        return "kept"
    return "missed"


def sides(document: Document) -> tuple[Side, ...]:
    """A and B of a comparison; nothing where there is none."""
    if not document.comparisons:
        return ()
    found = []
    for index, target in enumerate(document.targets):
        runs = tuple(run for run in document.runs if run.target == index)
        if runs:
            found.append(Side("ABCDEFGH"[index % 8], target, runs))
    return tuple(found)


def judged_runs(document: Document) -> tuple[Run, ...]:
    """The runs that must be valid. A search drives a target over its edge, where no run is: there it is one run."""
    if document.edge is None:
        return document.runs
    run = headline_run(document)
    return () if run is None else (run,)


def verdict(document: Document) -> Verdict:
    """VALID, or INVALID with the first reason and its remedy."""
    judged = judged_runs(document)
    findings = sorted(
        ((run.name, finding) for run in judged for finding in run.findings), key=lambda pair: _ORDER[pair[1].severity]
    )
    if not judged:
        reason = "it was interrupted before any run ended" if document.interrupted else "no run ended"
        return Verdict(False, "NO RESULT", reason, "run it again", None, ())
    if document.interrupted and len(document.runs) > 1 and document.edge is None and not document.comparisons:
        reason = "it was interrupted before there was an answer; the runs until then are below"
        return Verdict(False, "NO RESULT", reason, "run it again", None, tuple(findings))
    failing = [run for run in judged if not run.is_valid]
    if document.edge is not None and document.edge.rate is None and not any(map(blames_generator, judged)):
        failing = []  # That even the lowest rate was too much is an answer.
    if not failing:
        word = "VALID, PARTIAL" if document.interrupted else "VALID"
        reason = "interrupted: the figures are of what was measured until then" if document.interrupted else ""
        return Verdict(True, word, reason, "", None, tuple(findings))
    cause = next((finding for finding in failing[0].findings if finding.severity == "invalid"), None)
    reason = cause.reason if cause else "a run was marked so without a finding"
    if len(judged) > 1:
        reason = f"{len(failing)} of {len(judged)} runs would mislead; {failing[0].name}: {reason}"
    return Verdict(False, "INVALID", reason, cause.remedy if cause else "", cause, tuple(findings))


def headline(document: Document) -> str:
    """The answer in one sentence: what a search found, what a comparison says, the main figures of a run."""
    if document.edge is not None:
        return document.edge.says
    if document.comparisons:
        return document.comparisons[0].says
    run = headline_run(document)
    if run is None:
        return ""
    words = [f"{figures.number(run.throughput.value, 4)}/s"]
    told = [each for each in run.latency.percentiles if each.is_supported and each.percent in (50.0, 99.0)]
    words += [f"{percentile_text(each.percent)} {figures.number(each.value_ms)} ms" for each in told]
    words.append(f"{figures.percent(run.failed / run.offered if run.offered else 0.0)} failed")
    if run.load.loop == "closed":
        words.append("closed loop")
    return ", ".join(words)


def edge_says(edge: Edge) -> str:
    """The bracket around the edge, in figures."""
    slo = f"{percentile_text(edge.slo.percent)} <= {figures.plain(edge.slo.limit_ms)} ms"
    if edge.rate is None:
        words = f"no rate was found under {slo}"
    else:
        words = f"{figures.number(edge.rate.value, 4)}/s under {slo}"
        words += f", 95 % interval {figures.interval(edge.rate.low, edge.rate.high)}"
    if edge.lowest_failing is not None:
        words += f"; lowest rate that failed {figures.number(edge.lowest_failing, 4)}/s"
    return f"{words}; {'confirmed' if edge.confirmed else 'not confirmed'}"


def histogram_or_none(latency: Latency | None) -> Histogram | None:
    """The distribution; None where there are no samples, or a file that was changed by hand no longer tells them."""
    if latency is None or not latency.count:
        return None
    try:
        return histogram_of(latency)
    except ValueError:
        return None


def payloads_say(payloads: PayloadReport) -> str:
    """What was sent."""
    number = f"{figures.count(payloads.count)} payload{'s' if payloads.count != 1 else ''}"
    return f"{number}, {payloads.source}; {figures.size(payloads.mean_bytes)} on average, order {payloads.order}"


def pooled_latency(runs: Sequence[Run]) -> Histogram:
    """The latencies of several runs as one distribution."""
    return Histogram.merged(found for run in runs if (found := histogram_or_none(run.latency)) is not None)
