"""A target that is ready to be measured: what is asked, by whom, and what its server itself tells."""

from collections.abc import Callable

from guepard.bench.progress import Progress
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.measure.instrument import Instrument, Interrupted
from guepard.measure.load.outcomes import outcome_name
from guepard.measure.load.plan import LoadPlan
from guepard.measure.observation import Glimpse
from guepard.measure.results import Run, Slo

_NS = 1_000_000_000
_NS_PER_MS = 1_000_000

Show = Callable[[Progress], None]
StopEarly = Callable[[float, int], bool]
"""Told the seconds that have passed and the requests under way; True ends the run."""


class Subject:
    """`runs` gets every run that was measured, the interrupted one too."""

    def __init__(
        self,
        prepared: PreparedTarget,
        plan: LoadPlan,
        instrument: Instrument,
        *,
        slo: Slo | None,
        warm_up_s: float | None,
        runs: list[Run],
        show: Show,
    ) -> None:
        self.prepared = prepared
        self.plan = plan
        self._instrument = instrument
        self._slo = slo
        self._warm_up_s = warm_up_s
        self._runs = runs
        self._show = show

    def measure(
        self, plan: LoadPlan, *, name: str, step: str = "", is_kept: bool = True, stop_early: StopEarly | None = None
    ) -> Run:
        """One run, shown while it goes on. `is_kept` is False for probes, which are no result.

        Raises: GeneratorFailed, Interrupted.
        """
        watch = _Watch(plan, name, step, self._show, stop_early)
        try:
            run = self._instrument.measure(
                plan, name=name, slo=self._slo, warm_up_s=self._warm_up_s if is_kept else 0.0, watch=watch
            )
        except Interrupted as interrupted:
            if is_kept:
                self._runs.append(interrupted.run)
            raise
        if is_kept:
            self._runs.append(run)
        return run


class _Watch:
    """Turns glimpses of a run into progress, twice a second."""

    def __init__(self, plan: LoadPlan, name: str, step: str, show: Show, stop_early: StopEarly | None) -> None:
        self._total_s = plan.duration_ns / _NS
        self._rate = plan.arrivals.mean_rate(plan.duration_ns) if plan.arrivals else None
        self._name = name
        self._step = step
        self._show = show
        self._stop_early = stop_early

    def __call__(self, glimpse: Glimpse) -> bool:
        self._show(self._progress(glimpse))
        if self._stop_early is None or glimpse.last_second is None:
            return True
        return not self._stop_early(glimpse.elapsed_s, glimpse.last_second.in_flight)

    def _progress(self, glimpse: Glimpse) -> Progress:
        second = glimpse.last_second
        latency = second.latency if second else None
        lag = second.send_lag if second else None
        return Progress(
            phase=self._name,
            elapsed_s=min(glimpse.elapsed_s, self._total_s),
            total_s=self._total_s,
            offered_rate=self._rate,
            achieved_rate=second.succeeded / second.duration_s if second else None,
            in_flight=second.in_flight if second else 0,
            p50_ms=latency.quantile(0.5) / _NS_PER_MS if latency and latency.count else None,
            p99_ms=latency.quantile(0.99) / _NS_PER_MS if latency and latency.count else None,
            errors={outcome_name(outcome): count for outcome, count in glimpse.failed.items()},
            send_lag_p99_ms=lag.quantile(0.99) / _NS_PER_MS if lag and lag.count else None,
            step=self._step,
        )
