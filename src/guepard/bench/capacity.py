"""How much a target can take, by a short closed loop: what rates are chosen by when nobody names one.

Little's law makes it so: with C callers that wait, throughput is C over the mean latency. More callers raise it until
the target is busy; from there on they only wait longer.
Source: J. D. C. Little, "A Proof for the Queuing Formula L = λW", Operations Research 9 (1961).
"""

from collections.abc import Callable
from typing import NamedTuple

from guepard.measure.evidence import error_share
from guepard.measure.results import Run
from guepard.measure.validity import blames_generator

ClosedLoop = Callable[[int, float], Run]
"""Measures so many callers for so many seconds."""

_WORTH_DOUBLING = 1.1
_USUAL_SHARE = 0.5
_COMMON_SHARE = 0.6


class Capacity(NamedTuple):
    """rate: the most successes per second that were seen, 0 if there were none. concurrency: callers that it took.

    by_generator: the load generator was at its limit, so the target can take more.
    """

    rate: float
    concurrency: int
    by_generator: bool = False


def probe_capacity(
    measure: ClosedLoop, *, seconds: float = 1.0, most: int = 64, max_error_share: float = 0.01
) -> Capacity:
    """Double the callers, from one to `most`, until a doubling brings less than a tenth more, or errors.

    Cost: `seconds` times the doublings, seven at most for 64.
    """
    best = Capacity(0.0, 1)
    concurrency = 1
    while concurrency <= most:
        run = measure(concurrency, seconds)
        if not run.succeeded or error_share(run) > max_error_share:
            break
        reached = run.throughput.value
        is_worth_it = reached > _WORTH_DOUBLING * best.rate
        if reached > best.rate:
            best = Capacity(reached, concurrency)
        if blames_generator(run):
            return best._replace(by_generator=True)
        if not is_worth_it:
            break
        concurrency *= 2
    return best


def usual_rate(capacity: Capacity) -> float:
    """The open loop's rate where none was named: half, where a server is neither idle nor pressed."""
    return rounded(_USUAL_SHARE * capacity.rate)


def common_rate(one: Capacity, other: Capacity) -> float:
    """The rate at which two targets are compared: 60 % of what the slower one can take, so that both keep it."""
    return rounded(_COMMON_SHARE * min(one.rate, other.rate))


def rounded(rate: float) -> float:
    """Three significant digits: a rate that can be said and typed again."""
    return float(f"{rate:.3g}")
