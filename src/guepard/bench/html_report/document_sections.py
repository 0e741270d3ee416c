"""The parts of the page that are about the whole result."""

import shlex
from collections.abc import Sequence

from guepard.bench import figures
from guepard.bench.html_report.markup import Content, Markup, joined, table, tag
from guepard.bench.reading import (
    Side,
    Verdict,
    asked_rate,
    by_code,
    edge_says,
    headline,
    headline_run,
    payloads_say,
    pooled_latency,
    run_state,
)
from guepard.bench.run_summary import value_at
from guepard.bench.side_summary import SHARES, quantile_ms, side_errors
from guepard.measure.figures import percentile_text
from guepard.measure.results import Document, Edge, Gate, Run, Target

_MARKS = {"invalid": "bad", "warning": "unknown", "note": "quiet"}
_STATE_MARKS = {"valid": "good", "kept": "good", "missed": "unknown", "INVALID": "bad"}
_TICK = "M4 13l5 5L20 6"
_CROSS = "M5 5l14 14M19 5L5 19"


def heading(document: Document) -> Markup:
    """What was measured, in which terms, and when."""
    several = len(document.targets) > 1
    targets = [
        tag("p", tag("b", f"{'ABCDEFGH'[index % 8]} ") if several else None, _target(target), class_="target")
        for index, target in enumerate(document.targets)
    ]
    scenario = tag("p", f"Scenario: {document.scenario}") if document.scenario else None
    return joined((tag("h1", "Guepard bench"), *targets, tag("p", document.created, class_="quiet"), scenario))


def _target(target: Target) -> Markup:
    facts = [target.protocol]
    if target.model:
        facts.append(f"model {target.model}" + (f" version {target.model_version}" if target.model_version else ""))
    facts += [target.server] if target.server else []
    facts += ["on the machine of the generator"] if target.same_machine else []
    return joined((tag("code", target.url), tag("span", f" {', '.join(facts)}", class_="quiet")))


def banner(document: Document, found: Verdict) -> Markup:
    """The verdict in colour, in words and as a sign, with the reason and what to do about it."""
    sign = tag(
        "svg",
        tag("path", d=_TICK if found.is_valid else _CROSS),
        viewBox="0 0 24 24",
        class_="sign",
        aria_hidden="true",
    )
    missed = sum(not gate.passed for gate in document.gates)
    gates = None
    if document.gates:
        words = f"{missed} of {len(document.gates)} gates missed" if missed else "all gates passed"
        gates = tag("p", tag("span", words, class_=f"pill {'bad' if missed else 'good'}"))
    answer = headline(document) if found.is_valid else ""
    return tag(
        "div",
        sign,
        tag(
            "div",
            tag("strong", found.word),
            tag("p", f"because {found.reason}" if not found.is_valid else found.reason) if found.reason else None,
            tag("p", tag("b", "Remedy: "), found.remedy) if found.remedy else None,
            tag("p", answer, class_="answer") if answer else None,
            gates,
        ),
        class_=f"banner {'good' if found.is_valid else 'bad'}",
        role="status",
    )


def findings_table(found: Verdict, *, is_of_many: bool) -> Markup:
    """What limits the figures, worst first, a row for each code; its figures are those of the first run that has it."""
    cells = [
        [
            _pill(finding.severity),
            tag("code", finding.code),
            finding.reason,
            finding.remedy,
            *([_names(names)] if is_of_many else []),
        ]
        for names, finding in by_code(found.findings)
    ]
    head = ["", "finding", "reason", "remedy", *(["runs"] if is_of_many else [])]
    return table(head, cells, caption="Findings")


def _pill(severity: str) -> Markup:
    return tag("span", severity, class_=f"pill {_MARKS[severity]}")


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def edge_section(edge: Edge) -> Markup:
    return joined((tag("p", edge.says, class_="lead"), tag("p", edge_says(edge) + ".", class_="quiet")))


def gates_table(gates: Sequence[Gate]) -> Markup:
    """What was to be kept, against the baseline."""
    rows = [
        (
            gate.name,
            tag("span", "passed" if gate.passed else "MISSED", class_=f"pill {'good' if gate.passed else 'bad'}"),
            figures.number(gate.measured, 4),
            figures.number(gate.limit, 4),
            figures.number(gate.baseline, 4),
            gate.says,
        )
        for gate in gates
    ]
    head = ("gate", "", "measured", "limit", "baseline", "says")
    return table(head, rows, caption="Gates", classes=[None, None, "n", "n", "n"])


def runs_table(document: Document) -> Markup:
    """One row a run; the one that is shown first is marked."""
    percent = document.slo.percent if document.slo else 99.0
    shown = headline_run(document)
    rows: list[Sequence[Content]] = []
    for run in document.runs:
        is_shown = run is shown and not document.comparisons
        name = joined((run.name, tag("span", "(below)", class_="quiet") if is_shown else None), " ")
        rows.append(
            (
                name,
                state_pill(document, run),
                figures.plain(asked_rate(run), 4),
                figures.number(run.throughput.value, 4),
                value_at(run.latency, 50),
                value_at(run.latency, percent),
                figures.percent(run.failed / run.offered if run.offered else 0.0),
            )
        )
    head = ("run", "", "asked/s", "done/s", "p50, ms", f"{percentile_text(percent)}, ms", "failed")
    return table(head, rows, caption="All runs", classes=[None, None, "n", "n", "n", "n", "n"])


def state_pill(document: Document, run: Run) -> Markup:
    """Whether the run is valid, or in a search whether it kept the SLO."""
    state = run_state(document, run)
    return tag("span", state, class_=f"pill {_STATE_MARKS[state]}")


def sides_table(sides: Sequence[Side]) -> Markup:
    """Percentiles and errors of the sides of a comparison."""
    pools = [pooled_latency(side.runs) for side in sides]
    rows: list[Sequence[Content]] = [
        (percentile_text(share * 100), *(quantile_ms(pool, share) for pool in pools)) for share in SHARES
    ]
    rows.append(("samples", *(figures.count(pool.count) for pool in pools)))
    head = ("ms, of successes", *(side.letter for side in sides))
    classes = [None, *["n"] * len(sides)]
    figures_of_both = table(head, rows, caption="Both sides in figures", is_caption_shown=True, classes=classes)
    errors = facts(*((f"errors of {side.letter}", side_errors(side)) for side in sides))
    return tag("div", figures_of_both, errors)


def origin(document: Document) -> Markup:
    """Where the figures come from: command, machine, versions, payloads."""
    machine, payloads = document.machine, document.payloads
    versions = [f"{name} {version}" for name, version in document.versions.items()]
    return joined(
        (
            tag("h2", "Made with"),
            facts(
                ("command", tag("code", shlex.join(document.command))),
                ("guepard", document.guepard),
                ("versions", ", ".join(versions)),
                ("commit of the folder", tag("code", document.commit) if document.commit else "none"),
                (
                    "machine",
                    f"{machine.cpu}, {machine.cores} cores of which {figures.plain(machine.cpu_budget)} may be used, "
                    f"{figures.binary_size(machine.memory_bytes)} of memory, {machine.system}",
                ),
                ("payloads", payloads_say(payloads)),
                ("their SHA-256", tag("code", payloads.sha256)),
            ),
            tag(
                "p",
                "The result itself is in this file as JSON; guepard bench --gate reads it from here too. "
                "Nothing is loaded from anywhere else.",
                class_="quiet",
            ),
        )
    )


def facts(*pairs: tuple[str, Content]) -> Markup:
    """Names and what they stand for."""
    return tag("dl", *(joined((tag("dt", name), tag("dd", value))) for name, value in pairs if value))
