"""What a terminal shows after `guepard bench`: the verdict first, then the figures and how far they can be trusted.

Plain ASCII but for the names that others chose, so that it can be pasted anywhere.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from guepard.bench import figures
from guepard.bench.reading import (
    asked_rate,
    by_code,
    edge_says,
    headline,
    headline_run,
    payloads_say,
    run_state,
    sides,
    verdict,
)
from guepard.bench.run_summary import run_blocks, value_at
from guepard.bench.side_summary import side_blocks
from guepard.bench.terminal import Ink, is_terminal, terminal_size, wants_colour, write_text
from guepard.bench.text_blocks import LABEL_COLUMNS, Block, Columns, laid_out, wrapped
from guepard.measure.figures import percentile_text
from guepard.measure.results import Comparison, Document, Gate, Run, Target

_WIDEST = 100
_NARROWEST = 80
_DEFAULT = 92


def print_summary(document: Document, stream: TextIO, environment: Mapping[str, str] = os.environ) -> None:
    """Write the summary, in colour and as wide as the terminal where `stream` is one."""
    is_coloured = wants_colour(stream, environment)
    width = terminal_size(stream)[0] - 1 if is_terminal(stream) else _DEFAULT
    write_text(stream, summary(document, width=width, is_coloured=is_coloured))


def summary(document: Document, *, width: int = _DEFAULT, is_coloured: bool = False) -> str:
    """The text, at most `width` columns wide, which is kept within 80 to 100."""
    ink = Ink(is_coloured)
    width = min(max(width, _NARROWEST), _WIDEST)
    lines = [*_verdict(document, ink, width), "", *laid_out(_blocks(document, ink, width), ink, width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _verdict(document: Document, ink: Ink, width: int) -> Iterator[str]:
    found = verdict(document)
    words = [found.reason, headline(document)] if found.is_valid else [found.reason]
    missed = sum(not gate.passed for gate in document.gates)
    if document.gates:
        words.append(f"{missed} of {len(document.gates)} gates missed" if missed else "all gates passed")
    joint = ": " if found.is_valid else " because "
    first, *rest = wrapped(f"{found.word}{joint}{'; '.join(filter(None, words))}", width)
    paint = ink.good if found.is_valid else ink.bad
    yield paint(first[: len(found.word)]) + first[len(found.word) :]
    yield from rest
    if found.remedy:
        yield from wrapped(f"remedy: {found.remedy}", width, indent="  ")
    for names, finding in by_code(found.others):
        where = f" ({figures.one_line(_names(names), 40)})" if len(document.runs) > 1 else ""
        first, *rest = wrapped(f"{finding.severity}{where}: {finding.reason}", width, indent="  ")
        yield ink.faint(first) if finding.severity == "note" else ink.warning(first)
        yield from rest
        if finding.remedy:
            yield from wrapped(f"remedy: {finding.remedy}", width, indent="    ")


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _blocks(document: Document, ink: Ink, width: int) -> Iterator[Block]:
    room = width - LABEL_COLUMNS
    several = len(document.targets) > 1
    for index, target in enumerate(document.targets):
        yield Block(f"Target {'ABCDEFGH'[index % 8]}" if several else "Target", wrapped(_target(target), room))
    yield Block("Payloads", wrapped(payloads_say(document.payloads), room))
    if document.scenario:
        yield Block("Scenario", wrapped(document.scenario, room))
    if document.edge is not None:
        yield Block("Edge", wrapped(edge_says(document.edge), room))
    if document.comparisons:
        yield Block("B against A", list(_comparisons(document.comparisons, ink, room)))
        yield from side_blocks(sides(document), ink, room)
    if document.gates:
        yield Block("Gates", list(_gates(document.gates, ink, room)))
    if len(document.runs) > 1:
        yield Block("Runs", list(_runs(document, ink, room)))
    run = headline_run(document)
    if run is None or document.comparisons:
        return
    if len(document.runs) > 1:
        yield Block("", [ink.strong(f"--- {figures.one_line(run.name, 60)} ---")])
    yield from run_blocks(run, document.slo, ink, width)


def _target(target: Target) -> str:
    model = f", model {target.model}" + (f" version {target.model_version}" if target.model_version else "")
    server = f", server {target.server}" if target.server else ""
    here = ", on this machine" if target.same_machine else ""
    return f"{target.url} ({target.protocol}){model if target.model else ''}{server}{here}"


def _comparisons(comparisons: Sequence[Comparison], ink: Ink, room: int) -> Iterator[str]:
    columns = Columns(("metric", "verdict", "difference", "95 % interval", "detectable"), "<<>>>")
    for each in comparisons:
        paint = {"faster": ink.good, "slower": ink.bad, "cannot tell": ink.warning}[each.verdict]
        low, high = each.difference.low, each.difference.high
        columns.add(
            (
                figures.one_line(each.metric, max(room - 57, 10)),
                each.verdict,
                figures.change(each.difference.value),
                f"{figures.change(low)} .. {figures.change(high)}",
                figures.percent(each.minimum_detectable),
            ),
            paint,
        )
    yield from columns.lines(ink, room)


def _gates(gates: Sequence[Gate], ink: Ink, room: int) -> Iterator[str]:
    columns = Columns(("gate", "", "measured", "limit", "baseline"), "<<>>>")
    for gate in gates:
        words = (figures.number(value, 4) for value in (gate.measured, gate.limit, gate.baseline))
        name = figures.one_line(gate.name, 30)
        columns.add((name, "passed" if gate.passed else "MISSED", *words), ink.good if gate.passed else ink.bad)
    yield from columns.lines(ink, room)
    for gate in gates:
        if not gate.passed or "cannot tell" in gate.says:
            yield from wrapped(f"{gate.name}: {gate.says}", room)


def _runs(document: Document, ink: Ink, room: int) -> Iterator[str]:
    percent = document.slo.percent if document.slo else 99.0
    head = ("run", "asked/s", "done/s", "p50 ms", f"{percentile_text(percent)} ms", "failed", "")
    columns = Columns(head, "<>>>>><")
    for run in document.runs:
        state = run_state(document, run)
        columns.add(_run_row(run, percent, state), {"INVALID": ink.bad, "missed": ink.warning}.get(state, str))
    yield from columns.lines(ink, room)


def _run_row(run: Run, percent: float, state: str) -> tuple[str, ...]:
    reasons = [finding.code for finding in run.findings if finding.severity == "invalid"]
    return (
        figures.one_line(run.name, 16),
        figures.plain(asked_rate(run), 4),
        figures.number(run.throughput.value, 4),
        value_at(run.latency, 50),
        value_at(run.latency, percent),
        figures.percent(run.failed / run.offered if run.offered else 0.0),
        figures.one_line(f"{state} ({', '.join(reasons)})" if reasons and state == "INVALID" else state, 30),
    )
