"""The highest rate that keeps a latency goal: `--find-max p99=50ms`.

The edge is bracketed by doubling from a start, then closed in on by halving the bracket on a scale of ratios. Runs of
the search are short; the answer is confirmed by a long one.

What a run says. A rate keeps the goal if the *estimate* of the percentile does, errors are within their limit, and at
least 97 % of what was due ended in time. The estimate, since the upper bound of the interval would answer with a lower
rate the shorter one measures, and the lower bound with a higher one. But the bounds decide how hard to look: where the
limit lies between them the run could not tell, and is repeated as long as the confirmation. Any other miss is repeated
once before it counts, for one pause of the machine is no edge. The bounds also make the interval of the answer, from
the highest rate that certainly kept the goal to the lowest that certainly missed it; certainly means by half as much
again as the bounds are away, since a search looks about ten times.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from guepard.bench.capacity import rounded
from guepard.measure.evidence import error_share
from guepard.measure.figures import digits, ms_text, percentile_text, rate_text, share_text
from guepard.measure.results import Edge, Estimate, Run, Slo
from guepard.measure.validity import GENERATOR_CODES, blames_generator

OpenLoop = Callable[[float, float], Run]
"""Measures a rate for so many seconds. What the run before left behind must have drained."""

_KEPT_SHARE = 0.97
_BRACKET = 1.05
_WANTED_BEYOND = 20
"""Samples beyond the percentile that a run of the search is made long enough for."""
_CERTAIN = 1.5
_HALVINGS = 12
_HIGHEST_RATE = 5_000_000.0
_MOST_VAIN = 8
"""Runs in a row that only show the generator's limit."""
_STEPS_DOWN = (1.05, 1.05, 1.1, 1.2, 1.5, 2.0)


class Verdict(NamedTuple):
    """Whether a run keeps the goal. `is_sure`: the interval of the percentile says so too. `is_certain`: so does one
    half as wide again. `by_generator`: the run says nothing of the target."""

    keeps: bool
    reason: str
    is_sure: bool = True
    is_certain: bool = True
    by_generator: bool = False


class SearchPlan(NamedTuple):
    """start: the first rate, half the capacity for instance. short_s, long_s: runs of the search, and the last one."""

    start: float
    short_s: float = 5.0
    long_s: float = 30.0
    max_error_share: float = 0.01


def judge(run: Run, slo: Slo, max_error_share: float) -> Verdict:
    """What `run` says of its rate."""
    if blames_generator(run):
        reason = next(finding.reason for finding in run.findings if finding.code in GENERATOR_CODES)
        return Verdict(False, f"the generator is the limit: {reason}", by_generator=True)
    share = error_share(run)
    if not run.succeeded or share > max_error_share:
        return Verdict(False, f"{share_text(share)} of the requests failed")
    due = run.offered_rate * (run.window.end_s - run.window.start_s)
    kept = run.throughput.value / run.offered_rate if run.offered_rate else 1.0
    # What is in flight at the end is not missing, and it wanders.
    if due * (1 - kept) > (1 - _KEPT_SHARE) * due + 3 * math.sqrt(run.mean_in_flight):
        return Verdict(False, f"{rate_text(run.throughput.value)} of {rate_text(run.offered_rate)} ended")
    percentile = run.latency.at(slo.percent)
    assert percentile is not None, "a run is summed up with the percentile of its goal"
    value = percentile.value_ms
    keeps = value <= slo.limit_ms
    bound = percentile.high_ms if keeps else percentile.low_ms
    margin = abs(slo.limit_ms - value)
    reach = math.inf if bound is None else abs(bound - value)
    reason = f"{percentile_text(slo.percent)} is {ms_text(value)}"
    return Verdict(keeps, reason, is_sure=reach <= margin, is_certain=_CERTAIN * reach <= margin)


def find_max(measure: OpenLoop, slo: Slo, plan: SearchPlan, *, say: Callable[[str], None] = lambda line: None) -> Edge:
    """The edge. `say` is told what each rate came to.

    Stops at the generator's limit: then the answer is "at least". Cost: about ten short runs and two to five long ones.
    """
    search = _Search(measure, slo, plan, say)
    search.bracket()
    search.close_in()
    return search.answer()


class _Search:
    """`low` keeps the goal, 0 while no rate does; `high` does not, infinite while each does."""

    def __init__(self, measure: OpenLoop, slo: Slo, plan: SearchPlan, say: Callable[[str], None]) -> None:
        self._measure = measure
        self._slo = slo
        self._plan = plan
        self._say = say
        self._goal = f"{percentile_text(slo.percent)} within {ms_text(slo.limit_ms)}"
        self._low = 0.0
        self._high = math.inf
        self._why_not_higher = Verdict(False, "")
        self._certainly_kept: list[float] = []
        self._certainly_missed: list[float] = []
        self._told_nothing = 0

    def bracket(self) -> None:
        """Double while the goal is kept, or halve until it is."""
        rate = rounded(self._plan.start)
        while rate <= _HIGHEST_RATE and self._try(rate):
            rate = rounded(rate * 2)
        for _ in range(_HALVINGS):
            if self._low or self._is_vain:
                return
            rate = rounded(rate / 2)
            self._try(rate)

    def close_in(self) -> None:
        """Halve the bracket, as a ratio, until it is 5 % wide."""
        while self._low and _BRACKET < self._high / self._low < math.inf and not self._is_vain:
            middle = rounded(math.sqrt(self._low * self._high))
            if not self._low < middle < self._high:
                return
            self._try(middle)

    @property
    def _is_vain(self) -> bool:
        """The generator alone was seen at its limit, again and again: more rates would tell nothing of the server."""
        return self._told_nothing >= _MOST_VAIN

    def answer(self) -> Edge:
        """The edge, once a long run has confirmed it."""
        if not self._low and self._is_vain:
            return self._none(
                f"nobody can tell: {self._why_not_higher.reason}; use --processes, a quieter machine, or a looser goal"
            )
        if not self._low:
            return self._none(f"not even {rate_text(self._high)} keeps {self._goal}: {self._why_not_higher.reason}")
        rate = self._confirmed(self._low)
        if rate is None:
            return self._none(
                f"no rate down to {rate_text(self._high)} kept {self._goal} for {self._plan.long_s:g} s, though "
                f"shorter runs did; at the last, {self._why_not_higher.reason}"
            )
        low = max((each for each in self._certainly_kept if each <= rate), default=None)
        high = min((each for each in self._certainly_missed if each > rate), default=None)
        is_bounded = self._high < math.inf and not self._why_not_higher.by_generator
        return Edge(
            slo=self._slo,
            rate=Estimate(value=rate, low=low, high=high),
            lowest_failing=self._high if is_bounded else None,
            confirmed=True,
            says=self._sentence(rate, low, high),
        )

    def _none(self, says: str) -> Edge:
        return Edge(slo=self._slo, rate=None, lowest_failing=self._high, confirmed=False, says=says)

    def _sentence(self, rate: float, low: float | None, high: float | None) -> str:
        if self._high == math.inf:
            return f"at least {rate_text(rate)} keeps {self._goal}; no higher rate was tried"
        if self._why_not_higher.by_generator:
            return (
                f"at least {rate_text(rate)} keeps {self._goal}; {self._why_not_higher.reason}: add --processes, or "
                "load it from another machine"
            )
        certainly = f", {digits(low)} certainly" if low is not None and low < rate else ""
        not_more = f", {digits(high)} certainly not" if high is not None else ""
        return (
            f"{rate_text(rate)} keeps {self._goal}{certainly}{not_more}; at {rate_text(self._high)} "
            f"{self._why_not_higher.reason}"
        )

    def _try(self, rate: float) -> bool:
        """Does the rate keep the goal? The bracket follows the answer."""
        short_s = min(self._plan.long_s, max(self._plan.short_s, _WANTED_BEYOND / (1 - self._slo.percent / 100) / rate))
        verdict = self._look(rate, short_s)
        if not (verdict.keeps and verdict.is_sure) and not verdict.by_generator:
            verdict = self._look(rate, short_s if verdict.is_sure else self._plan.long_s)
        if verdict.keeps:
            self._low = max(self._low, rate)
        elif rate < self._high:
            self._high, self._why_not_higher = rate, verdict
        return verdict.keeps

    def _confirmed(self, rate: float) -> float | None:
        """The first rate, from `rate` downwards, that keeps the goal in a long run; each has two."""
        for step in _STEPS_DOWN:
            verdict = self._look(rate, self._plan.long_s)
            if not verdict.keeps:
                verdict = self._look(rate, self._plan.long_s)
            if verdict.keeps:
                return rate
            self._high, self._why_not_higher = rate, verdict
            rate = rounded(rate / step)
        return None

    def _look(self, rate: float, seconds: float) -> Verdict:
        verdict = judge(self._measure(rate, seconds), self._slo, self._plan.max_error_share)
        self._told_nothing = self._told_nothing + 1 if verdict.by_generator else 0
        if verdict.is_certain and not verdict.by_generator:
            (self._certainly_kept if verdict.keeps else self._certainly_missed).append(rate)
        outcome = "keeps it" if verdict.keeps else "tells nothing" if verdict.by_generator else "misses it"
        self._say(f"{rate_text(rate)} {outcome}{'' if verdict.is_sure else ', not surely'}: {verdict.reason}")
        return verdict
