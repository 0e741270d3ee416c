"""How much worse one figure is than another, and whether chance may be the cause.

Source: the interval of a ratio is that of a difference of logarithms from two separate intervals; G. Y. Zou and
A. Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27 (2008). So is that of
two shares, from the intervals of C. J. Clopper and E. S. Pearson, Biometrika 26 (1934).
"""

import math
from typing import NamedTuple

from guepard.measure.distributions import beta_probability
from guepard.measure.figures import share_text
from guepard.measure.results import Estimate

RAISE = "raise --duration to tell"

_MORE_ERRORS = 0.001
"""What the share of errors may rise by, beside the limit: one in a thousand."""


class Failures(NamedTuple):
    """So many of the requests that ended."""

    failed: int
    ended: int

    @property
    def share(self) -> float:
        return self.failed / self.ended if self.ended else 0.0


class Outcome(NamedTuple):
    """`limit` is what the figure may be at the most, or where more is better at the least."""

    passed: bool
    limit: float
    says: str


class Ratio(NamedTuple):
    """How much worse, as a share: 0.1 is 10 % worse, below 0 is better. A bound is None where nothing is known."""

    value: float
    low: float | None
    high: float | None


def worsened(worse_if_more: Estimate, than: Estimate) -> Ratio:
    """The one over the other, less 1, with its interval."""
    if worse_if_more.value <= 0 or than.value <= 0:
        return Ratio(0.0, None, None)
    centre = math.log(worse_if_more.value / than.value)
    down = _reach(_down(worse_if_more), _up(than))
    up = _reach(_up(worse_if_more), _down(than))
    return Ratio(
        math.expm1(centre),
        None if down is None else math.expm1(centre - down),
        None if up is None else math.expm1(centre + up),
    )


def _down(estimate: Estimate) -> float | None:
    return None if not estimate.low or estimate.low < 0 else math.log(estimate.value / estimate.low)


def _up(estimate: Estimate) -> float | None:
    return None if estimate.high is None else math.log(estimate.high / estimate.value)


def _reach(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else math.hypot(one, other)


def judge_ratio(ratio: Ratio, limit: float, figures: str) -> tuple[bool, str]:
    """Did it pass, and why. `figures` names the two."""
    if ratio.low is None or ratio.high is None:
        return True, f"cannot tell: {figures}, and there are too few samples for an interval; {RAISE}"
    span = f"{_signed(ratio.low)} to {_signed(ratio.high)}"
    if ratio.low > limit:
        return False, f"worse: {figures}, which is {_signed(ratio.value)} ({span}); {share_text(limit)} may be lost"
    if ratio.high > limit:
        return True, f"cannot tell: {figures}; worse by {span}, and {share_text(limit)} lies within; {RAISE}"
    word = "better" if ratio.high < 0 else "within the limit"
    return True, f"{word}: {figures} ({span} worse)"


def judge_failures(now: Failures, before: Failures, limit: float) -> Outcome:
    """More failures than before fail, where it is certain; a few more may be chance."""
    allowed = before.share * limit + _MORE_ERRORS
    low, high = _difference(now, before)
    figures = f"{share_text(now.share)} of the requests failed, {share_text(before.share)} did before"
    most = before.share + allowed
    if low > allowed:
        return Outcome(False, most, f"worse: {figures}; they may rise by {share_text(allowed)} of all requests")
    if high > allowed:
        return Outcome(True, most, f"cannot tell: {figures}; there are too few requests for so small a share; {RAISE}")
    return Outcome(True, most, f"within the limit: {figures}")


def _difference(now: Failures, before: Failures) -> tuple[float, float]:
    """The 95 % interval of the difference of two shares."""
    low, high = _exact(now)
    low_before, high_before = _exact(before)
    centre = now.share - before.share
    return (
        centre - math.hypot(now.share - low, high_before - before.share),
        centre + math.hypot(high - now.share, before.share - low_before),
    )


def _exact(failures: Failures) -> tuple[float, float]:
    """The exact 95 % interval of a share, which a single failure does not lift far."""
    failed, ended = failures
    if not ended:
        return 0.0, 1.0
    low = _quantile(0.025, failed, ended - failed + 1) if failed else 0.0
    high = _quantile(0.975, failed + 1, ended - failed) if failed < ended else 1.0
    return low, high


def _quantile(probability: float, a: float, b: float) -> float:
    """Of the beta distribution, by halving."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if beta_probability(a, b, middle) < probability else (low, middle)
    return (low + high) / 2


def _signed(share: float) -> str:
    return f"{share * 100:+.1f} %"
