"""One start of one server, and the loads that it gets before it is ended."""

import os
import sys
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import numpy as np
from numpy.testing import assert_allclose

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.choice import Wanted
from benchmarks.comparisons.form import Form, Values
from benchmarks.comparisons.peer import Peer
from benchmarks.comparisons.peer_environment import PeerEnvironment
from benchmarks.comparisons.records import LoadRecord, StartRecord
from benchmarks.comparisons.setting import LARGE_FACTOR, SMALL_MODELS, Setting
from benchmarks.models import ReferenceModel
from benchmarks.serving import grpc_payload
from benchmarks.serving.contender import free_ports, running
from benchmarks.serving.payload import Answer, exchange
from benchmarks.serving.process import memory, observe_quietly
from benchmarks.serving.raw_engine import open_session
from guepard.measure.instrument import Instrument
from guepard.measure.load.generator import LoadGenerator
from guepard.measure.load.plan import Endpoint, LoadPlan, Payload
from guepard.measure.results import Run

ROOT = Path(__file__).parents[2]
ONE_FORM_MODELS = frozenset(("minilm",))
"""Whose bodies are so small beside the model that the form makes no difference: binary, where there is one."""
START_LIMIT_S, STOP_LIMIT_S = 180.0, 8.0
WARM_UP_S = 1.0
RAMP_S = 0.25
"""At the beginning of a load, not measured: connections open, batches find their size."""
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    model: ReferenceModel
    peer: Peer
    setting: Setting
    forms: tuple[Form, ...]
    connections: tuple[int, ...]
    wanted: Container[Wanted] | None = None
    """Of these forms and connections; None for all."""

    def only(self, wanted: Container[Wanted]) -> "Visit | None":
        """With the forms and connections of which some load is wanted; None where there is none."""
        forms = tuple(form for form in self.forms if any(self.load(form, each) in wanted for each in self.connections))
        return replace(self, forms=forms, wanted=wanted) if forms else None

    def connections_of(self, form: Form) -> tuple[int, ...]:
        return tuple(each for each in self.connections if self.wanted is None or self.load(form, each) in self.wanted)

    def load(self, form: Form, connections: int) -> Wanted:
        return Wanted(self.model.name, self.peer.name, self.setting.name, form.name, connections)

    @property
    def form_name(self) -> str:
        return self.forms[0].name if self.peer.is_form_at_start else "all"

    def __str__(self) -> str:
        own_form = f", {self.form_name}" if self.peer.is_form_at_start else ""
        return f"{self.model.name}: {self.peer.title}, {self.setting.name}{own_form}"


@dataclass(frozen=True, slots=True)
class Load:
    """How each load of a run is made."""

    generator: LoadGenerator
    duration_s: float
    patience_s: float
    """How long to wait for a quiet machine, before each."""
    attempts: int
    """While the machine is busy with other work."""
    ramp_s: float = RAMP_S

    def of(self, model: ReferenceModel) -> "Load":
        """Longer, and from its first request on, where there are few answers in a second."""
        is_small = model.name in SMALL_MODELS
        return self if is_small else replace(self, duration_s=self.duration_s * LARGE_FACTOR, ramp_s=0.0)


@dataclass(frozen=True, slots=True)
class Server:
    pid: int
    assignment: Assignment
    started_in_s: float


def visits(peer: Peer, model: ReferenceModel, connections: tuple[int, ...]) -> Iterator[Visit]:
    """Every start that `peer` needs for `model`."""
    forms = tuple(form for form in peer.forms if form.suits(model.name))
    if model.name in ONE_FORM_MODELS and any(form.kind == "binary" for form in forms):
        forms = tuple(form for form in forms if form.kind == "binary")
    groups = [(form,) for form in forms] if peer.is_form_at_start else [forms]
    for setting in peer.settings.of(model.name):
        suited = tuple(each for each in connections if setting.suits(each))
        if suited:
            yield from (
                Visit(model=model, peer=peer, setting=setting, forms=group, connections=suited) for group in groups
            )


@contextmanager
def serving(visit: Visit, environment: PeerEnvironment) -> Iterator[Server]:
    """The server, from its first good answer on. Raises: NotServing; AssertionError when the answer is wrong."""
    with TemporaryDirectory(prefix="compare-") as name:
        folder = Path(name)
        assignment = assign(visit)
        visit.peer.prepare(assignment, folder)
        program, *words = visit.peer.command(assignment, folder)
        variables = {
            **os.environ,
            "PATH": f"{environment.bin}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            **assignment.as_environment(),
            **visit.peer.variables(assignment, folder),
        }
        first = visit.forms[0]
        started = running(
            visit.peer.name,
            [str(environment.bin / program), *words],
            lambda: answer_of(visit.model, first, assignment) is not None,
            environment=variables,
            cwd=folder,
            is_family=True,
            start_limit_s=START_LIMIT_S,
            stop_limit_s=STOP_LIMIT_S,
        )
        with started as (pid, started_in_s):
            yield Server(pid, assignment, started_in_s)


def assign(visit: Visit) -> Assignment:
    model, setting = visit.model, visit.setting
    http_port, grpc_port, *others = free_ports(5)
    row = model.sample(1)
    return Assignment(
        model=model.name,
        file=str(model.path()),
        input_name=model.input_name,
        output_name=model.output_name,
        input_dtype=str(row.dtype),
        input_shape=row.shape[1:],
        output_shape=expected_values(model).shape,
        http_port=http_port,
        grpc_port=grpc_port,
        other_ports=tuple(others),
        instances=setting.instances,
        threads=setting.threads,
        max_batch_size=setting.max_batch_size,
        delay_ms=setting.delay_ms,
        form=visit.forms[0].kind,
    )


def answer_of(model: ReferenceModel, form: Form, assignment: Assignment) -> Values | None:
    """What the server answers; None while it does not, or refuses."""
    payload = form.payload(model)
    try:
        if form.kind == "grpc":
            return form.values(Answer(grpc_payload.ask(assignment.grpc_port, payload.body), None))
        return form.values(exchange(assignment.http_port, payload))
    except (OSError, HTTPException, AssertionError, grpc.RpcError):
        return None


def expected_values(model: ReferenceModel) -> Values:
    (output,) = open_session(model).run([model.output_name], {model.input_name: model.sample(1)})
    row: Values = np.asarray(output[0], np.float32)
    return row


def check(model: ReferenceModel, form: Form, assignment: Assignment, min_cosine: float | None) -> None:
    """Raises: AssertionError unless the server answers as the engine does, or with `min_cosine` nearly so."""
    got = answer_of(model, form, assignment)
    assert got is not None, f"{form.name}: no good answer"
    expected = expected_values(model).ravel()
    if min_cosine is None:
        assert_allclose(got, expected, rtol=1e-3, atol=1e-5, err_msg=form.name)
    else:
        cosine = np.dot(got, expected) / (np.linalg.norm(got) * np.linalg.norm(expected))
        assert cosine >= min_cosine, f"{form.name}: a cosine of {cosine} with the engine's answer"


def start_record(visit: Visit, server: Server, turn: int) -> StartRecord:
    seen = memory(server.pid)
    return StartRecord(
        model=visit.model.name,
        peer=visit.peer.name,
        setting=visit.setting.name,
        form=visit.form_name,
        turn=turn,
        start_s=round(server.started_in_s, 3),
        idle_rss_bytes=seen.rss_bytes,
        idle_pss_bytes=seen.pss_bytes,
        processes=seen.processes,
    )


def measure_form(visit: Visit, form: Form, server: Server, load: Load, turn: int) -> Iterator[LoadRecord]:
    """One load for each number of connections. Raises: AssertionError before the first, if the answer is wrong."""
    check(visit.model, form, server.assignment, visit.peer.min_cosine)
    measure = partial(_measured, form, visit.model, server.assignment, load.generator)
    measure(max(visit.connections_of(form)), WARM_UP_S, 0.0)
    for connections in visit.connections_of(form):
        print(f"  {form.name}, {connections} connections", file=sys.stderr, flush=True)
        run, seen = observe_quietly(
            partial(measure, connections, load.duration_s, load.ramp_s),
            server.pid,
            attempts=load.attempts,
            clients=load.generator.pids,
            patience_s=load.patience_s,
        )
        good = sum(each.succeeded for each in run.slices)
        assert run.latency.count, f"no good answer on {connections} connections, {run.failed} others"
        held = memory(server.pid)
        found = {percent: run.latency.at(percent) for percent in (50.0, 90.0, 99.0)}
        yield LoadRecord(
            model=visit.model.name,
            peer=visit.peer.name,
            setting=visit.setting.name,
            form=form.name,
            kind=form.kind,
            connections=connections,
            turn=turn,
            requests=good,
            failed=sum(sum(each.failed.values()) for each in run.slices),
            requests_per_second=round(run.throughput.value, 2),
            p50_ms=round(found[50.0].value_ms, 4) if found[50.0] else 0.0,
            p90_ms=round(found[90.0].value_ms, 4) if found[90.0] else 0.0,
            p99_ms=round(found[99.0].value_ms, 4) if found[99.0] else 0.0,
            is_p99_supported=found[99.0] is not None and found[99.0].is_supported,
            cpu_us=round(seen.server_cpu_s / max(1, good) * 1e6, 2),
            server_cores=round(seen.server_cpu_s / seen.wall_s, 3),
            client_cores=round(seen.client_cpu_s / seen.wall_s, 3),
            other_cores=round(seen.other_cores, 3),
            is_quiet=seen.is_quiet,
            rss_bytes=held.rss_bytes,
            pss_bytes=held.pss_bytes,
            findings=tuple(finding.code for finding in run.findings if finding.severity != "note"),
        )


def _measured(
    form: Form,
    model: ReferenceModel,
    assignment: Assignment,
    generator: LoadGenerator,
    connections: int,
    seconds: float,
    ramp_s: float,
) -> Run:
    plan = load_plan(form, model, assignment, connections, seconds + ramp_s)
    return Instrument(generator, same_machine=True).measure(plan, name=form.name, warm_up_s=ramp_s)


def load_plan(form: Form, model: ReferenceModel, assignment: Assignment, connections: int, seconds: float) -> LoadPlan:
    """A closed loop, in which each connection carries one request at a time."""
    asked = form.payload(model)
    is_grpc = form.kind == "grpc"
    port = assignment.grpc_port if is_grpc else assignment.http_port
    if is_grpc:
        payload = Payload(data=asked.body, path=asked.path)
    else:
        headers = {"Host": f"127.0.0.1:{port}", **asked.headers, "Content-Length": str(len(asked.body))}
        lines = [f"POST {asked.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        payload = Payload(data="\r\n".join(lines).encode() + asked.body)
    return LoadPlan(
        endpoint=Endpoint(protocol="grpc" if is_grpc else "http", host="127.0.0.1", port=port),
        payloads=(payload,),
        concurrency=connections,
        streams_per_connection=1 if is_grpc else 0,
        duration_ns=round(seconds * _NS),
        server_timing=False,
    )
