"""`guepard bench` from its options to its exit code: the composition root of this room."""

import os
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import msgspec

from guepard import __version__
from guepard.bench.answers import Asking
from guepard.bench.gate import hold_gate
from guepard.bench.html_report import page
from guepard.bench.junit import to_junit
from guepard.bench.live_view import LiveView
from guepard.bench.load_plans import rows_of, scenario_of
from guepard.bench.local_model import OpenModel
from guepard.bench.measurement import Measurement
from guepard.bench.reading import verdict
from guepard.bench.scenarios import scenario_finding
from guepard.bench.subject import Subject
from guepard.bench.summary import print_summary
from guepard.bench.targets.target_refused import TargetRefused
from guepard.core.errors import GuepardError, LoadError
from guepard.limits.cpu_budget import cpu_budget
from guepard.measure import result_file
from guepard.measure.instrument import Interrupted
from guepard.measure.machine import commit_of, describe_machine, software_versions
from guepard.measure.results import Document, PayloadReport, Run, Slo
from guepard.measure.whole_file import ensure_writable, write_whole
from guepard.settings.bench_options import BenchOptions

_NS_PER_MS = 1_000_000
_DONE, _FAILED, _INTERRUPTED = 0, 1, 130


def run(
    options: BenchOptions, *, command: tuple[str, ...], open_model: OpenModel, stdout: TextIO, stderr: TextIO
) -> int:
    """Measure, tell and write what was asked for. Returns the exit code. Raises: ConfigurationError."""
    # First of all: what is wrong with files should be known before anything is measured.
    for path in (options.output.out, options.output.report, options.output.junit):
        if path is not None:
            ensure_writable(path)
    baseline = result_file.read(options.question.gate) if options.question.gate is not None else None
    try:
        document = _measured(options, command, open_model, stderr)
    except (GuepardError, LoadError, TargetRefused) as error:
        print(f"guepard bench: {error}", file=stderr)
        return _FAILED
    if document is None:
        print("guepard bench: interrupted, with nothing measured that could be told", file=stderr)
        return _INTERRUPTED
    limit = options.gate_limit
    if limit is not None and not document.interrupted:
        gates = hold_gate(document, baseline, limit)
        document = msgspec.structs.replace(document, gates=gates)
    _write(options, document)
    try:
        _print(options, document, stdout)
    except BrokenPipeError:
        _look_away(stdout)  # the reader has seen enough, as `head` does; the exit code still tells
    except OSError as error:
        _look_away(stdout)
        print(f"guepard bench: cannot write to stdout: {error.strerror}; --out FILE writes to a file", file=stderr)
        return _FAILED
    if document.interrupted:
        return _INTERRUPTED
    return _DONE if _is_good(document) else _FAILED


def _is_good(document: Document) -> bool:
    found_edge = document.edge is None or document.edge.rate is not None
    return found_edge and verdict(document).is_valid and all(gate.passed for gate in document.gates)


def _measured(
    options: BenchOptions, command: tuple[str, ...], open_model: OpenModel, stderr: TextIO
) -> Document | None:
    """None where an interrupt came before the first run."""
    goal = options.question.find_max or options.question.slo
    slo = Slo(percent=goal.percent, limit_ms=goal.limit / _NS_PER_MS) if goal else None
    created = datetime.now(UTC)
    subjects: list[Subject] = []
    with ExitStack() as stack:
        view = stack.enter_context(LiveView(stderr))
        measurement = Measurement(options, slo=slo, stack=stack, open_model=open_model, show=view.show, say=view.note)
        asking = Asking(options, slo, measurement.runs, view.note)
        interrupted = False
        try:
            subjects.append(measurement.open(options.target, 0))
            if options.question.compare is not None:
                subjects.append(measurement.open(options.question.compare, 1))
            asking.ask(subjects)
        except (Interrupted, KeyboardInterrupt):
            interrupted = True
        if not subjects or not measurement.runs:
            return None
    payloads = subjects[0].plan.payloads
    return Document(
        created=created.isoformat(timespec="seconds"),
        command=command,
        guepard=__version__,
        versions=software_versions(),
        commit=commit_of(Path.cwd()),
        machine=describe_machine(cpu_budget().exact),
        targets=tuple(subject.prepared.target for subject in subjects),
        payloads=PayloadReport(
            source=subjects[0].prepared.source,
            count=len(payloads),
            mean_bytes=sum(len(payload.data) for payload in payloads) / len(payloads),
            sha256=subjects[0].prepared.sha256,
            order=str(subjects[0].plan.order),
        ),
        slo=slo,
        runs=tuple(_with_scenario(run, options) for run in measurement.runs),
        edge=asking.answers.edge,
        comparisons=asking.answers.comparisons,
        scenario=asking.answers.scenario,
        interrupted=interrupted,
    )


def _with_scenario(run: Run, options: BenchOptions) -> Run:
    """The run, with a note of what it is no MLPerf result for."""
    scenario = scenario_of(options)
    if scenario is None:
        return run
    return msgspec.structs.replace(run, findings=(*run.findings, scenario_finding(scenario, run, rows_of(options))))


def _write(options: BenchOptions, document: Document) -> None:
    output = options.output
    if output.out is not None:
        result_file.write(document, output.out)
    if output.report is not None:
        page.write(document, output.report)
    if output.junit is not None:
        seconds = sum(run.load.duration_s for run in document.runs)
        write_whole(output.junit, to_junit(document.gates, seconds).encode())


def _print(options: BenchOptions, document: Document, stdout: TextIO) -> None:
    if options.output.json:
        stdout.write(result_file.to_json(document).decode())
        stdout.flush()
    else:
        print_summary(document, stdout)


def _look_away(stdout: TextIO) -> None:
    """Let what is left in the buffer go nowhere, lest the interpreter complain at its end."""
    with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stdout.fileno())
