"""One run of load from a plan to a judged Run: the door of this package for everyone who measures."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from guepard.measure.analysis import analyse
from guepard.measure.evidence import Evidence
from guepard.measure.load.generator import LoadGenerator
from guepard.measure.load.plan import LoadPlan
from guepard.measure.observation import Glimpse, Observation
from guepard.measure.results import Run, ServerView, Slo
from guepard.measure.validity import judged

Watch = Callable[[Glimpse], bool]
"""Told twice a second how the run stands; False ends it early."""

_GLIMPSE_EVERY_S = 0.5


class Interrupted(Exception):
    """Ctrl-C ended the run early; `run` is what had been measured."""

    def __init__(self, run: Run) -> None:
        super().__init__("interrupted")
        self.run = run


class ServerSide(Protocol):
    """Tells the same seconds as the server saw them."""

    def before(self) -> None:
        """Called before a run's first request."""
        ...

    def after(self, run: Run, timings: Sequence[bytes]) -> ServerView:
        """Called after its last answer. `timings` are values of the header Server-Timing."""
        ...


class Instrument:
    """Carries out plans on one target, one after the other, and judges what came of them.

    It counts the requests of all runs, so that a later run goes on in the corpus where the last one ended. Runs tell
    their beginning as seconds since `began_s`, a time of the monotonic clock. `target` is their target's index.
    """

    def __init__(
        self,
        generator: LoadGenerator,
        *,
        same_machine: bool,
        server_side: ServerSide | None = None,
        max_error_share: float = 0.01,
        self_test_rate: float | None = None,
        target: int = 0,
        began_s: float | None = None,
    ) -> None:
        self._generator = generator
        self._same_machine = same_machine
        self._server_side = server_side
        self._max_error_share = max_error_share
        self._self_test_rate = self_test_rate
        self._target = target
        self._next_number = 0
        self._began_s = time.monotonic() if began_s is None else began_s

    def measure(
        self,
        plan: LoadPlan,
        *,
        name: str,
        slo: Slo | None = None,
        warm_up_s: float | None = None,
        watch: Watch = lambda glimpse: True,
    ) -> Run:
        """Carry out `plan`. The first `warm_up_s` are not measured; None finds their end by itself.

        Raises: GeneratorFailed; Interrupted with the part that was measured.
        """
        plan = msgspec.structs.replace(plan, first_number=self._next_number)
        observation = Observation()
        if self._server_side is not None:
            self._server_side.before()
        began_s = time.monotonic()
        carried = self._generator.run(plan, observation, _Glimpses(observation, began_s, watch))
        self._next_number += observation.count
        run = analyse(
            plan,
            observation,
            carried.usages,
            name=name,
            target=self._target,
            started_s=began_s - self._began_s,
            slo=slo,
            warm_up_s=warm_up_s,
            self_test_rate=self._self_test_rate,
        )
        if self._server_side is not None:
            run = msgspec.structs.replace(run, server=self._server_side.after(run, observation.timings))
        run = judged(Evidence(run=run, same_machine=self._same_machine, slo=slo, max_error_share=self._max_error_share))
        if carried.was_interrupted:
            raise Interrupted(run)
        return run


class _Glimpses:
    """The tick of a run: it is looked at less often than it ticks, as looking takes milliseconds."""

    def __init__(self, observation: Observation, began_s: float, watch: Watch) -> None:
        self._observation = observation
        self._began_s = began_s
        self._watch = watch
        self._next_s = began_s

    def __call__(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._next_s:
            return True
        self._next_s = now_s + _GLIMPSE_EVERY_S
        return self._watch(self._observation.glimpse(now_s - self._began_s))
