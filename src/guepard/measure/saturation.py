"""Is a backlog building up? In an open loop a server that is too slow shows as a number in flight that only grows.

Seen early, it ends a run that could only tell how long it was.
Source: guidellm's over-saturation detector looks at such a slope and its interval (vllm-project/guidellm); the interval
allows for the autocorrelation of the residuals as Santer et al. (2000), J. Geophys. Res. 105, 7337-7356, do.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guepard.measure.distributions import student_quantile

OVERLOAD_SHARE = 0.03
"""A backlog that grows by more than this share of the offered rate means overload."""

_FEWEST = 6


class Growth(NamedTuple):
    """Requests per second by which the number in flight grows, with a 95 % confidence interval."""

    slope: float
    low: float
    high: float


def backlog_growth(at_s: Sequence[float], in_flight: Sequence[float]) -> Growth | None:
    """The slope of the number in flight; None for fewer than six samples, or samples of one moment.

    Shapes: two sequences of one length. Cost: O(n).
    """
    if len(at_s) < _FEWEST:
        return None
    times = np.asarray(at_s, np.float64)
    counts = np.asarray(in_flight, np.float64)
    centred = times - times.mean()
    spread = float(centred @ centred)
    if spread == 0:
        return None
    slope = float(centred @ counts) / spread
    residuals = counts - counts.mean() - slope * centred
    freedom = max(1.0, _independent(residuals) - 2)
    error = (float(residuals @ residuals) / freedom / spread) ** 0.5
    reach = student_quantile(0.975, freedom) * error
    return Growth(slope, slope - reach, slope + reach)


def is_hopeless(
    at_s: Sequence[float], in_flight: Sequence[float], *, rate: float, limit_s: float, lead_s: float = 1.0
) -> bool:
    """Will no more time make this run keep its limit? Then it may be stopped early.

    So it is when the backlog surely grows by more than 3 % of the offered rate, and is already long enough for the next
    request to wait beyond `limit_s` by Little's law. `at_s` counts from the start of the run; nothing is judged before
    `lead_s`.
    """
    if not at_s or at_s[-1] < lead_s:
        return False
    growth = backlog_growth(at_s, in_flight)
    return growth is not None and growth.low > OVERLOAD_SHARE * rate and in_flight[-1] > rate * limit_s


def _independent(residuals: NDArray[np.float64]) -> float:
    """How many independent samples the residuals are worth, by their autocorrelation at lag 1."""
    power = float(residuals @ residuals)
    if power == 0:
        return float(len(residuals))
    correlation = min(0.99, max(0.0, float(residuals[:-1] @ residuals[1:]) / power))
    return max(3.0, len(residuals) * (1 - correlation) / (1 + correlation))
