"""One run of load from a plan to a judged Run: the door of this package for everyone who measures."""

import time
from collections.abc import Callable

import msgspec

from guepard.measure.analysis import analyse
from guepard.measure.evidence import Evidence
from guepard.measure.load.generator import LoadGenerator
from guepard.measure.load.plan import LoadPlan
from guepard.measure.observation import Glimpse, Observation
from guepard.measure.results import Run, Slo
from guepard.measure.validity import judged

Watch = Callable[[Glimpse], bool]
"""Told ten times a second how the run stands; False ends it early."""


class Interrupted(Exception):
    """Ctrl-C ended the run early; `run` is what had been measured."""

    def __init__(self, run: Run) -> None:
        super().__init__("interrupted")
        self.run = run


class Instrument:
    """Carries out plans on one target, one after the other, and judges what came of them.

    It counts the requests of all runs, so that a later run goes on in the corpus where the last one ended.
    """

    def __init__(
        self,
        generator: LoadGenerator,
        *,
        same_machine: bool,
        max_error_share: float = 0.01,
        self_test_rate: float | None = None,
        target: int = 0,
    ) -> None:
        self._generator = generator
        self._same_machine = same_machine
        self._max_error_share = max_error_share
        self._self_test_rate = self_test_rate
        self._target = target
        self._next_number = 0
        self._began_s: float | None = None
        self.timings: list[bytes] = []
        """Server-Timing values of the last run."""

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
        began_s = time.monotonic()
        if self._began_s is None:
            self._began_s = began_s
        carried = self._generator.run(plan, observation, lambda: watch(observation.glimpse(time.monotonic() - began_s)))
        self._next_number += observation.count
        self.timings = observation.timings
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
        run = judged(Evidence(run=run, same_machine=self._same_machine, slo=slo, max_error_share=self._max_error_share))
        if carried.was_interrupted:
            raise Interrupted(run)
        return run
