"""Targets made ready to be measured, with what belongs to them: a server where there is none, generators, probes."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import ceil

import msgspec

from guepard.bench.load_plans import base_plan, rows_of
from guepard.bench.local_model import ModelCaller, OpenModel, prepare_model
from guepard.bench.local_server import LocalServer
from guepard.bench.self_test import self_test_rate
from guepard.bench.server_view import ServerProbe
from guepard.bench.subject import Show, Subject
from guepard.bench.targets.prepare import prepare
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.bench.targets.probe import probe
from guepard.bench.targets.target_question import TargetQuestion
from guepard.measure.instrument import Instrument
from guepard.measure.load.generator import LoadGenerator
from guepard.measure.load.in_process_generator import InProcessGenerator
from guepard.measure.results import Run, ServerView, Slo
from guepard.settings.bench_options import BenchOptions
from guepard.settings.bench_rules import is_url

_NS = 1_000_000_000
_MOST_PROCESSES = 8
_HEADROOM = 2.0
"""A generator that can send so many times a rate sends it on time."""

Say = Callable[[str], None]


class Measurement:
    """Opens targets. What it opens is closed with `stack`; every run goes into `runs`."""

    def __init__(
        self, options: BenchOptions, *, slo: Slo | None, stack: ExitStack, open_model: OpenModel, show: Show, say: Say
    ) -> None:
        self.runs: list[Run] = []
        self._options = options
        self._slo = slo
        self._stack = stack
        self._open_model = open_model
        self._show = show
        self._say = say
        self._began_s = time.monotonic()
        self._generator: LoadGenerator | None = None
        self._self_test_rate: float | None = None

    def open(self, target: str | None, index: int) -> Subject:
        """The target with this index in the document, ready to be measured.

        Raises: ConfigurationError, GuepardError, TargetRefused.
        """
        options = self._options
        if options.request.protocol == "in-process":
            assert target is not None
            return self._open_in_process(target, index)
        question = self._question(target)
        metrics_url = options.request.metrics_url
        if target is not None and not is_url(target):
            self._say(f"serving {target} for the time of the measurement")
            arguments = ("--trust",) if options.request.trust else ()
            ports = self._stack.enter_context(LocalServer(target, arguments=arguments))
            is_grpc = question.protocol == "oip-grpc"
            url = f"grpc://127.0.0.1:{ports.grpc}" if is_grpc else f"http://127.0.0.1:{ports.http}"
            question = msgspec.structs.replace(question, url=url)
            metrics_url = f"http://127.0.0.1:{ports.metrics}/metrics"
        prepared = prepare(question)
        probed = probe(prepared, timeout_s=question.timeout_s, wait_ready_s=question.wait_ready_s)
        if prepared.target.server is None:
            named = msgspec.structs.replace(prepared.target, server=probed.server)
            prepared = msgspec.structs.replace(prepared, target=named)
        server_side = ServerProbe(
            prepared.endpoint,
            model=prepared.target.model,
            version=prepared.target.model_version,
            prefix=prepared.path_prefix,
            headers=prepared.headers,
            metrics_url=metrics_url,
        )
        return self._subject(prepared, self._generator_for(prepared), index, _ServerSide(server_side))

    def _open_in_process(self, target: str, index: int) -> Subject:
        options = self._options
        model = self._stack.enter_context(self._open_model(target, options.request.trust))
        prepared, inputs = prepare_model(model, options)
        caller = self._stack.enter_context(ModelCaller(model, inputs, options.request.timeout / _NS))
        generator = self._stack.enter_context(InProcessGenerator(caller.submit))
        return self._subject(prepared, generator, index, None)

    def _subject(
        self, prepared: PreparedTarget, generator: LoadGenerator, index: int, server_side: "_ServerSide | None"
    ) -> Subject:
        options = self._options
        for note in prepared.notes:
            self._say(note)
        instrument = Instrument(
            generator,
            same_machine=prepared.target.same_machine,
            server_side=server_side,
            max_error_share=float(options.question.max_errors),
            self_test_rate=self._self_test_rate,
            target=index,
            began_s=self._began_s,
        )
        return Subject(
            prepared,
            base_plan(options, prepared, generator.count),
            instrument,
            slo=self._slo,
            warm_up_s=None if options.load.warmup == "auto" else options.load.warmup / _NS,
            runs=self.runs,
            show=self._show,
        )

    def _generator_for(self, prepared: PreparedTarget) -> LoadGenerator:
        """One crew of processes serves all targets. Its size is what was asked for, or what the rate needs."""
        if self._generator is not None:
            return self._generator
        load = self._options.load
        count = 1 if load.processes == "auto" else load.processes
        generator = self._tested(count, prepared)
        rate = max(load.rate or 0.0, float(load.arrivals.end_rate or 0.0))
        if load.processes == "auto" and self._self_test_rate and rate * _HEADROOM > self._self_test_rate:
            more = min(ceil(rate * _HEADROOM / self._self_test_rate), len(os.sched_getaffinity(0)), _MOST_PROCESSES)
            if more > count:
                generator = self._tested(more, prepared)
        self._generator = generator
        return generator

    def _tested(self, count: int, prepared: PreparedTarget) -> LoadGenerator:
        """So many processes, and how fast they are together."""
        load = self._options.load
        generator = self._stack.enter_context(LoadGenerator(count))
        if load.self_test:
            plan = msgspec.structs.replace(base_plan(self._options, prepared, count), concurrency=load.concurrency or 0)
            self._self_test_rate = self_test_rate(generator, plan)
        return generator

    def _question(self, target: str | None) -> TargetQuestion:
        options = self._options
        request = options.request
        return TargetQuestion(
            url=target or "",
            protocol=request.protocol,
            model=request.model,
            model_version=request.model_version,
            data=request.data,
            batch=rows_of(options),
            shapes=request.shape,
            headers=request.header,
            method=request.method,
            body=request.body,
            seed=options.load.seed,
            expect=request.expect,
            insecure=request.insecure,
            ca_file=request.ca_file,
            timeout_s=request.timeout / _NS,
            wait_ready_s=request.wait_ready / _NS,
            curl=request.curl,
            openapi=request.openapi,
            operation=request.operation,
        )


class _ServerSide:
    """A ServerProbe as the instrument asks it."""

    def __init__(self, probe: ServerProbe) -> None:
        self._probe = probe

    def before(self) -> None:
        self._probe.before()

    def after(self, run: Run, timings: Sequence[bytes]) -> ServerView:
        self._probe.after()
        everything = sum(each.succeeded for each in run.slices)
        return self._probe.view(timings, run.latency.mean_ms if run.latency.count else None, everything)
