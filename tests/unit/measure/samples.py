"""Simulated latencies whose true quantiles are known, and a distribution that keeps every sample."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MILLISECOND = 1_000_000
_NORMAL = NormalDist()


class Samples:
    """A histogram without rounding."""

    def __init__(self, values: Integers) -> None:
        self._sorted = np.sort(values)

    @property
    def count(self) -> int:
        return len(self._sorted)

    def value_at_rank(self, rank: int) -> int:
        return int(self._sorted[rank - 1])

    def quantile(self, q: float) -> int:
        return self.value_at_rank(math.ceil(round(q * self.count, 9)))

    def count_at_or_below(self, value: int) -> int:
        return int(self._sorted.searchsorted(value, side="right"))


@dataclass(frozen=True)
class Source:
    """Shapes: draw(random, runs, count) is [runs, count], in order of time, in milliseconds."""

    draw: Callable[[Generator, int, int], Floats]
    quantile: Callable[[float], float]


def lognormal_quantile(q: float) -> float:
    return math.exp(0.5 * _NORMAL.inv_cdf(q))


def draw_bimodal(random: Generator, runs: int, count: int) -> Floats:
    """Seven of ten hit a cache."""
    hit = np.exp(random.normal(0, 0.1, (runs, count)))
    miss = 20 * np.exp(random.normal(0, 0.2, (runs, count)))
    return np.where(random.random((runs, count)) < 0.7, hit, miss)


def bimodal_quantile(q: float) -> float:
    """The modes do not overlap."""
    if q < 0.7:
        return math.exp(0.1 * _NORMAL.inv_cdf(q / 0.7))
    return 20 * math.exp(0.2 * _NORMAL.inv_cdf((q - 0.7) / 0.3))


def autoregressive(likeness: float) -> Source:
    """The logarithm of each latency is like the one before it."""

    def draw(random: Generator, runs: int, count: int) -> Floats:
        noise = random.normal(0, 1, (count, runs))
        noise[1:] *= math.sqrt(1 - likeness**2)
        for before, after in pairwise(noise):
            after += likeness * before
        return np.exp(0.5 * noise.T)

    return Source(draw, lognormal_quantile)


def draw_queue(random: Generator, runs: int, count: int, load: float, *, is_constant: bool) -> Floats:
    """Latencies of a queue with Poisson arrivals and one server, mean service 1 ms, after it has settled.

    Source: Lindley's recursion, W[n+1] = max(0, W[n] + S[n] - A[n+1]), as a running minimum.
    """
    settled = 500
    arrivals = random.exponential(1 / load, (runs, count + settled))
    service = np.ones_like(arrivals) if is_constant else random.exponential(1, arrivals.shape)
    steps = service[:, :-1] - arrivals[:, 1:]
    walk = np.concatenate([np.zeros((runs, 1)), steps.cumsum(axis=1)], axis=1)
    return (walk - np.minimum.accumulate(walk, axis=1) + service)[:, settled:]


def exponential_queue(load: float) -> Source:
    """M/M/1: times in the system are exponential with mean 1 / (1 - load)."""
    return Source(
        lambda random, runs, count: draw_queue(random, runs, count, load, is_constant=False),
        lambda q: -math.log(1 - q) / (1 - load),
    )


def constant_queue(load: float) -> Source:
    """M/D/1. Its quantiles come from Erlang's formula for the waiting time (A. K. Erlang, 1909)."""

    def waits_at_most(time: float) -> float:
        return (1 - load) * math.fsum(
            math.exp(load * (time - k)) * (-load * (time - k)) ** k / math.factorial(k)
            for k in range(math.floor(time) + 1)
        )

    def quantile(q: float) -> float:
        low, high = 0.0, 16.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if waits_at_most(middle) < q else (low, middle)
        return 1 + low

    return Source(
        lambda random, runs, count: draw_queue(random, runs, count, load, is_constant=True),
        quantile,
    )


SOURCES = {
    "lognormal": Source(lambda random, runs, count: np.exp(random.normal(0, 0.5, (runs, count))), lognormal_quantile),
    "exponential": Source(lambda random, runs, count: random.exponential(1, (runs, count)), lambda q: -math.log(1 - q)),
    "bimodal": Source(draw_bimodal, bimodal_quantile),
    "pareto": Source(
        lambda random, runs, count: 1 + random.pareto(1.5, (runs, count)), lambda q: (1 - q) ** (-1 / 1.5)
    ),
    "autoregressive 0.5": autoregressive(0.5),
    "autoregressive 0.9": autoregressive(0.9),
    "autoregressive 0.98": autoregressive(0.98),
    "M/M/1 at 0.5": exponential_queue(0.5),
    "M/M/1 at 0.7": exponential_queue(0.7),
    "M/D/1 at 0.7": constant_queue(0.7),
}
