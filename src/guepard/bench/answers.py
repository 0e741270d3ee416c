"""What was asked of a target, and the runs that answer it."""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from guepard.bench.capacity import Capacity, common_rate, probe_capacity, usual_rate
from guepard.bench.find_max import SearchPlan, find_max
from guepard.bench.load_plans import arrivals_at, closed_loop, open_loop, rows_of, scenario_of
from guepard.bench.scenarios import figure_of
from guepard.bench.subject import Subject
from guepard.bench.turns import take_turns
from guepard.core.errors import GuepardError
from guepard.measure.figures import rate_text
from guepard.measure.load.plan import Arrivals
from guepard.measure.results import Comparison, Edge, Run, Slo
from guepard.measure.saturation import is_hopeless
from guepard.measure.validity import excused
from guepard.settings.bench_options import BenchOptions
from guepard.settings.bench_words import Rate

_NS = 1_000_000_000
_SEARCH_RUN_S = 5.0
_OF_THE_EDGE = frozenset(("unsteady",))
"""Near the edge a queue has long ups and downs of its own. The search repeats what it cannot tell."""

Say = Callable[[str], None]


class Answers(Struct, kw_only=True):
    """Filled as they are found, so that an interrupt leaves those that were. `scenario` tells its figure in words."""

    edge: Edge | None = None
    comparisons: tuple[Comparison, ...] = ()
    scenario: str | None = None


class NothingSucceeded(GuepardError):
    """A probe without a single success leaves nothing to choose a rate by."""


class Asking:
    """One question. `runs` are those that were measured; `say` is told what is found on the way."""

    def __init__(self, options: BenchOptions, slo: Slo | None, runs: list[Run], say: Say) -> None:
        self._options = options
        self._slo = slo
        self._runs = runs
        self._say = say
        self.answers = Answers()

    def ask(self, subjects: list[Subject]) -> None:
        """Raises: Interrupted, GeneratorFailed, NothingSucceeded, ConfigurationError."""
        scenario = scenario_of(self._options)
        if scenario is not None:
            self.answers.scenario = scenario.name
        if len(subjects) > 1:
            self._compare(subjects)
        elif self._options.question.find_max is not None:
            self._find_max(subjects[0])
        elif scenario is not None and scenario.concurrency:
            concurrency = self._options.load.concurrency or scenario.concurrency
            run = subjects[0].measure(closed_loop(subjects[0].plan, concurrency), name=scenario.name)
            self.answers.scenario = f"{scenario.name}: {figure_of(scenario, run, rows_of(self._options))}"
        else:
            self._run(subjects[0])

    def _run(self, subject: Subject) -> None:
        load = self._options.load
        plan = subject.plan
        if load.concurrency is not None:
            subject.measure(closed_loop(plan, load.concurrency), name="closed loop")
            return
        rate = float(load.rate) if load.rate is not None else None
        if rate is None and load.arrivals.file is None:
            capacity = self._capacity(subject)
            rate = usual_rate(capacity)
            self._say(
                f"a closed loop of {capacity.concurrency} reached {rate_text(capacity.rate)}; measuring an open loop "
                f"at half of it, {rate_text(rate)} (choose with --rate or --concurrency)"
            )
        subject.measure(open_loop(plan, arrivals_at(self._options, rate or 0.0)), name="open loop")

    def _capacity(self, subject: Subject) -> Capacity:
        def measure(concurrency: int, seconds: float) -> Run:
            plan = msgspec.structs.replace(closed_loop(subject.plan, concurrency, seconds), requests=0)
            return subject.measure(plan, name="probe", step=f"how much it takes: {concurrency} callers", is_kept=False)

        most = self._options.load.connections
        capacity = probe_capacity(measure, most=min(64, most), max_error_share=float(self._options.question.max_errors))
        if not capacity.rate:
            raise NothingSucceeded(
                "no request succeeded, or too many failed, with a single caller: look at one answer with curl, or "
                "measure all the same with --rate or --concurrency"
            )
        return capacity

    def _compare(self, subjects: list[Subject]) -> None:
        options = self._options
        concurrency, rate = options.load.concurrency, options.load.rate
        if concurrency is None and rate is None:
            one, other = (self._capacity(subject) for subject in subjects)
            rate = Rate(common_rate(one, other))
            told = rate_text(float(rate))
            self._say(f"A takes {rate_text(one.rate)} and B {rate_text(other.rate)}; both are measured at {told}")

        def measure(side: int, index: int) -> Run:
            plan = subjects[side].plan
            if concurrency is not None:
                plan = closed_loop(plan, concurrency)
            else:
                plan = open_loop(plan, arrivals_at(options, float(rate or 0)))
            name = f"{'AB'[side]}{index + 1}"
            return subjects[side].measure(plan, name=name, step=f"turn {name} of {options.question.blocks}")

        turns = take_turns(
            measure, blocks=options.question.blocks, slo_percent=self._slo.percent if self._slo else None
        )
        self._runs[:] = turns.runs
        self.answers.comparisons = turns.comparisons

    def _find_max(self, subject: Subject) -> None:
        assert self._slo is not None
        slo = self._slo
        long_s = self._options.duration / _NS
        start = self._capacity(subject).rate / 2
        kind = self._options.load.arrivals.kind

        def measure(rate: float, seconds: float) -> Run:
            self._step += 1
            plan = open_loop(subject.plan, Arrivals(kind=kind, rate=rate), seconds)
            run = subject.measure(
                plan,
                name=rate_text(rate),
                step=f"step {self._step}: {rate_text(rate)}",
                stop_early=_Hopeless(rate, slo.limit_ms / 1_000),
            )
            self._runs[-1] = run = excused(run, _OF_THE_EDGE)
            return run

        self._step = 0
        plan = SearchPlan(
            start=start,
            short_s=min(_SEARCH_RUN_S, long_s),
            long_s=long_s,
            max_error_share=float(self._options.question.max_errors),
        )
        self.answers.edge = find_max(measure, slo, plan, say=self._say)


class _Hopeless:
    """Ends a run of a search whose backlog only grows: more time would not make it keep its goal."""

    def __init__(self, rate: float, limit_s: float) -> None:
        self._rate = rate
        self._limit_s = limit_s
        self._at_s: list[float] = []
        self._in_flight: list[float] = []

    def __call__(self, elapsed_s: float, in_flight: int) -> bool:
        self._at_s.append(elapsed_s)
        self._in_flight.append(in_flight)
        return is_hopeless(self._at_s, self._in_flight, rate=self._rate, limit_s=self._limit_s)
