"""Which engine executes a model, and in which precision.

A model that several engines execute is loaded on the first of them, the reference engine. If it is heavy, the others
are tried beside it in a process of their own (`engine_trial`), and one that is clearly faster and says the same takes
its place. What was decided is kept in the cache, and then the engine that won is loaded at once.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic_ns, perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from guepard.backends.base import Executor, ModelSource
from guepard.backends.registry import AUTO, ENGINES, home, installed_engines
from guepard.core.engine_options import Precision
from guepard.core.errors import LoadError
from guepard.core.model_config import SECOND, ModelDescription
from guepard.engine.warmup import Warmup, run_sample
from guepard.engine.wide_choice import HEAVY_NS

if TYPE_CHECKING:
    from guepard.engine.engine_trial.decision import Decision

# What trials need is imported with the first: light models, and servers with one engine, are ready without it.

log = logging.getLogger(__name__)

DECISION_NS = 9_500_000_000
"""A decision takes no longer, whatever engines do. What was not tried until then is not chosen."""

_TURN_S = 30.0  # for trials of other models, which would disturb each other
_TYPICAL_SIZES = (128, 224, 16)  # of free dimensions: warm-up takes the smallest that a model accepts, callers do not
_RUNS = 2
_MOST_UNFINISHED = 2  # loads in a row: one may have been ended by whoever stopped the server
_ONE_AT_A_TIME = threading.Lock()


class EngineChoice(NamedTuple):
    """`backend` loads the model; `precision` None is the engine's own; `reason` completes "it was chosen: ...".

    `facts` are the figures behind it, as they are shown. `ratio` is how many times as fast as the reference engine it
    is; 0.0: not measured. `key` is that of a decision that another run made.
    """

    backend: str
    precision: Precision | None
    reason: str
    facts: Mapping[str, Any] = {}
    ratio: float = 0.0
    key: str = ""


class EngineChooser:
    """The choice for one load of `source`, a model of `backend`.

    Raises: LoadError for an engine that cannot execute the model.
    """

    def __init__(self, source: ModelSource, backend: str) -> None:
        asked = source.policy.engines
        engines = ENGINES.get(backend, ())
        self._source = source
        self._backend = backend
        self._others: tuple[str, ...] = ()
        self._key = ""
        self._precision = asked.precision
        if asked.engine != AUTO:
            if asked.engine not in engines:
                possible = f"use one of {', '.join((AUTO, *engines))}" if engines else "remove it"
                raise LoadError(
                    f"engine: {asked.engine!r} does not execute models of the {backend} backend; {possible}"
                )
            self.choice = EngineChoice(asked.engine, asked.precision, "as configured")
            return
        self.choice = self._reference("the reference engine" if engines else "")
        if len(engines) < 2:
            return
        if _is_tuned(source, backend):
            self.choice = self._reference("the reference engine, whose own options are set")
            return
        # On a CPU it has full precision, which does what was asked for. The others are asked for the very precision.
        self._precision = "f32" if asked.precision == "f32" else None
        self._others = installed_engines(backend)[1:]
        if not self._others:
            self.choice = self._reference("the reference engine, as no other is installed")
        elif source.profile != "standard":
            self._others = ()
            self.choice = self._reference("the reference engine, as profile low-memory tries no other")
        else:
            from guepard.engine.engine_trial.decision_cache import DecisionCache

            self._cache = DecisionCache(source.cache)
            if not self._cache.is_empty:
                self._recall()

    @property
    def is_open(self) -> bool:
        """Whether `measure` may still change the choice."""
        return bool(self._others) and not self.choice.facts

    def measure(self, executor: Executor, description: ModelDescription, warmup: Warmup) -> None:
        """Settle an open choice. `executor` is the reference engine's, and `warmup` is its own. Raises: nothing.

        Cost: for a heavy model up to `DECISION_NS`, and for the trials of other models before it.
        """
        if warmup.timing is None or description.decoupled:
            self.choice = self._reference("the reference engine: it accepted no warm-up sample to measure others with")
            return
        size, one_ns = _typical(executor, description, warmup)
        if one_ns < HEAVY_NS:
            self.choice = self._reference(
                f"the reference engine: one row takes {one_ns / 1e6:.2g} ms, too little to gain"
            )
            return
        from guepard.engine.engine_trial.trial import TrialFailed

        if not _ONE_AT_A_TIME.acquire(timeout=_TURN_S):
            self.choice = self._reference("the reference engine: trials of other models took too long to wait for them")
            return
        try:
            self._measure(description, warmup, size)
        except TrialFailed as failure:
            self.choice = self._reference(f"the reference engine: no other was measured, as {failure}")
            log.warning("model %s: no other engine than %s was measured: %s", self._name, self._backend, failure)
        except Exception as error:  # what serves without it must not fail for it
            log.exception("model %s: engines could not be tried", self._name)
            self.choice = self._reference(f"the reference engine: the trial of others failed ({type(error).__name__})")
        finally:
            _ONE_AT_A_TIME.release()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """A load by `choice`, which is the reference engine from here on if the last ones took the server with them."""
        chosen = self.choice
        if not chosen.key or chosen.backend == self._backend:
            yield
            return
        mark = self._cache.load_mark(chosen.key)
        if mark.set() >= _MOST_UNFINISHED:
            self._give_up(chosen)
        try:
            yield
        finally:
            mark.clear()

    def fall_back(self, error: Exception) -> bool:
        """The engine that was chosen failed to load. True: `choice` is now another; it is forgotten that it won."""
        failed = self.choice
        if not failed.key or failed.backend == self._backend:
            return False
        self._cache.forget(failed.key)
        text = str(error) if isinstance(error, LoadError) else type(error).__name__
        self.choice = self._reference(f"the reference engine, as {failed.backend} failed to load: {text}")
        self._others = ()
        log.warning("model %s: %s failed to load, so %s serves: %s", self._name, failed.backend, self._backend, text)
        return True

    def _give_up(self, failed: EngineChoice) -> None:
        """Until the next start, which measures: what ended the server may have been another model."""
        self._cache.forget(failed.key)
        self.choice = self._reference(f"the reference engine, as the last loads on {failed.backend} never ended")
        self._others = ()
        log.warning(
            "model %s: the server ended while %s loaded it, so %s serves", self._name, failed.backend, self._backend
        )

    @property
    def _name(self) -> str:
        return self._source.name

    def _reference(self, reason: str) -> EngineChoice:
        return EngineChoice(self._backend, self._precision, reason)

    def _recall(self) -> None:
        started = perf_counter_ns()
        try:
            self._key = self._decision_key()
        except (OSError, LoadError):
            return  # whoever loads the model has more to say about that
        decision = self._cache.find(self._key)
        if decision is not None:
            self._take(decision, perf_counter_ns() - started, cached=True)

    def _decision_key(self) -> str:
        from guepard.engine.engine_trial.decision_key import decision_key

        return decision_key(self._source, (self._backend, *self._others), self._cache)

    def _measure(self, description: ModelDescription, warmup: Warmup, free_size: int) -> None:
        from guepard.engine.engine_trial.decision import decide
        from guepard.engine.engine_trial.messages import TrialOrder
        from guepard.engine.engine_trial.trial import try_engines

        started = perf_counter_ns()
        deadline = monotonic_ns() + min(DECISION_NS, self._source.policy.load_timeout_ns // 2)
        self._key = self._key or self._decision_key()
        known = self._cache.find(self._key)  # another model with the same content may have been decided just now
        if known is not None:
            self._take(known, perf_counter_ns() - started, cached=True)
            return
        batches = description.max_batch_size and (description.batch_verified or warmup.rows_independent)
        order = TrialOrder(
            source=replace(self._source, precision=self._precision),
            reference=self._backend,
            engines=self._others,
            homes={engine: home(engine) for engine in (self._backend, *self._others)},
            rows=description.max_batch_size if batches else 1 if description.max_batch_size else None,
            free_size=free_size,
            deadline_ns=deadline,
        )
        outcome = try_engines(order, self._source.memory_bytes // 2)
        took = perf_counter_ns() - started
        decision = decide(self._backend, outcome.candidates, took, is_complete=outcome.is_complete)
        if decision.is_final:
            self._cache.keep(self._key, decision)
        self._take(decision, took, cached=False)

    def _take(self, decision: "Decision", took_ns: int, *, cached: bool) -> None:
        won = decision.engine != self._backend
        self.choice = EngineChoice(
            decision.engine,
            decision.precision if won else self._precision,
            decision.reason,
            decision.facts(cached=cached, duration_ns=took_ns),
            decision.ratio,
            self._key,
        )
        log.info(
            "model %s: engine %s%s was chosen: %s; decided %s in %.2f s",
            self._name,
            decision.engine,
            f" in {decision.precision}" if decision.precision else "",
            decision.reason,
            "earlier, found" if cached else "by measurement",
            took_ns / SECOND,
        )


def _is_tuned(source: ModelSource, engine: str) -> bool:
    """Whether the operator has said how the reference engine is to execute the model, on which device for instance."""
    options = getattr(source.policy.engines, engine, None)
    has_options = options is not None and options != type(options)()
    return has_options or source.policy.instance_group.kind not in ("auto", "cpu")


def _typical(executor: Executor, description: ModelDescription, warmup: Warmup) -> tuple[int, int]:
    """A size of free dimensions that callers may well send, and what one row of it takes, in nanoseconds."""
    assert warmup.timing is not None
    if not any(spec.free for spec in description.inputs):
        return warmup.free_size, warmup.timing.one
    for size in _TYPICAL_SIZES:
        try:
            times = []
            for _ in range(_RUNS):
                started = perf_counter_ns()
                run_sample(executor, description, 1, size)
                times.append(perf_counter_ns() - started)
            return size, min(times)
        except Exception:  # noqa: S112 - a size that the model does not take
            continue
    return warmup.free_size, warmup.timing.one
