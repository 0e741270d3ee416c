"""The few distribution functions that judging measurements needs, without a library of statistics.

Units: probabilities are shares of 1.
Source: incomplete beta function by its continued fraction, NIST DLMF 8.17.22 (dlmf.nist.gov/8.17), evaluated as Lentz
    proposed; Student's t from it, Abramowitz & Stegun 26.7.1; fractional order statistics,
    A. D. Hutson, "Calculating nonparametric confidence intervals for quantiles using fractional order statistics",
    J. Applied Statistics 26 (1999).
"""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
_TINY = 1e-300
_TERMS = 10_000

# From this variance of the rank on, the expansion is within 0.03 of a rank of the exact solution.
_LARGE_VARIANCE = 150.0
_GUESS_ERROR = 0.3


def normal_quantile(probability: float) -> float:
    """The value that a standard normal variable stays below with this probability."""
    return _NORMAL.inv_cdf(probability)


def beta_probability(a: float, b: float, x: float) -> float:
    """P(X <= x) for X ~ Beta(a, b), the regularised incomplete beta function I_x(a, b).

    Cost: about sqrt(max(a, b)) steps of the fraction.
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_probability(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    upper = 1.0
    lower = 1 / (1 - (a + b) * x / (a + 1))
    fraction = lower
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            lower = 1 / ((1 + term * lower) or _TINY)
            upper = (1 + term / upper) or _TINY
            fraction *= upper * lower
        if abs(upper * lower - 1) < 1e-12:
            break
    return math.exp(log_front) * fraction / a


def student_probability(t: float, freedom: float) -> float:
    """P(T <= t) for Student's t with `freedom` degrees, which need not be whole."""
    tail = beta_probability(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2
    return 1 - tail if t > 0 else tail


@lru_cache(maxsize=1024)
def student_quantile(probability: float, freedom: float) -> float:
    """The value that Student's t with `freedom` degrees stays below with this probability."""
    if probability < 0.5:
        return -student_quantile(1 - probability, freedom)
    if probability == 0.5 or math.isinf(freedom):
        return normal_quantile(probability)
    low = normal_quantile(probability)
    high = low
    while student_probability(high, freedom) < probability:
        high = 2 * high + 1
    return _root(lambda t: student_probability(t, freedom) - probability, low, high, 1e-7)


def fisher_tail(ratio: float, above: float, below: float) -> float:
    """P(F > ratio) for the ratio of two variances with these degrees of freedom. Source: A&S 26.6.2."""
    return beta_probability(below / 2, above / 2, below / (below + above * ratio))


def order_ranks(count: float, q: float, confidence: float) -> tuple[float, float]:
    """Ranks of `count` ordered samples between which the q-quantile lies with this confidence, half the rest each side.

    Neither `count` nor the ranks need be whole. The share below sample number r is Beta(r, count + 1 - r), and this is
    solved for r; whole ranks are the textbook's interval from the binomial distribution. A rank below 1 or above
    `count` says that the samples do not reach that far.
    """
    tail = (1 - confidence) / 2
    variance = count * q * (1 - q)
    z = -normal_quantile(tail)
    # Two terms of the Cornish-Fisher expansion of the binomial distribution.
    centre = count * q + 0.5 + (1 - 2 * q) * (z * z - 1) / 6
    reach = math.sqrt(variance) * z
    if variance > _LARGE_VARIANCE:
        return centre - reach, centre + reach
    return _rank(count, q, 1 - tail, centre - reach), _rank(count, q, tail, centre + reach)


def _rank(count: float, q: float, probability: float, guess: float) -> float:
    """The rank whose sample is at most the q-quantile with this probability; 0 or count + 1 beyond the samples."""
    edge = 1e-9
    least, most = edge, count + 1 - edge

    def excess(rank: float) -> float:
        return probability - beta_probability(rank, count + 1 - rank, q)

    if excess(least) >= 0:
        return 0.0
    if excess(most) <= 0:
        return count + 1
    first, last = (min(max(guess + side * _GUESS_ERROR, least), most) for side in (-1, 1))
    if excess(first) >= 0:
        first = least
    if excess(last) <= 0:
        last = most
    return _root(excess, first, last, 1e-4)


def _root(rising: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Where a rising function crosses zero: regula falsi with the Illinois rule, which cannot leave the bracket."""
    below, above = rising(low), rising(high)
    if below >= 0:
        return low
    if above <= 0:
        return high
    side = 0
    last = math.nan
    for _ in range(200):
        middle = (low * above - high * below) / (above - below)
        value = rising(middle)
        if value == 0 or abs(middle - last) < tolerance:
            return middle
        last = middle
        if value < 0:
            low, below = middle, value
            if side < 0:
                above /= 2
            side = -1
        else:
            high, above = middle, value
            if side > 0:
                below /= 2
            side = 1
    return (low + high) / 2
