"""Intended send times of an open loop: one sequence for all generator processes, of which each takes every n-th.

Every process draws the whole sequence from the same seed, so that how many processes there are changes nothing in it,
and a Poisson process stays one however it is divided.
"""

from collections.abc import Iterator
from itertools import count

import numpy as np
from numpy.typing import NDArray

from guepard.measure.load.plan import Arrivals

_CHUNK = 8_192
_NS = 1_000_000_000

Times = NDArray[np.int64]


def send_times(arrivals: Arrivals, *, duration_ns: int, requests: int, seed: int) -> Iterator[Times]:
    """Nanoseconds from the start, ascending, in chunks: those before `duration_ns`, at most `requests` unless 0."""
    left = requests or None
    for chunk in _chunks(arrivals, duration_ns, seed):
        times = chunk[: np.searchsorted(chunk, duration_ns)]
        if left is not None:
            times = times[:left]
            left -= len(times)
        if len(times):
            yield times
        if len(times) < len(chunk) or left == 0:
            return


def _chunks(arrivals: Arrivals, duration_ns: int, seed: int) -> Iterator[Times]:
    rate = arrivals.rate / _NS
    match arrivals.kind:
        case "trace":
            yield np.array(arrivals.times_ns, np.int64)
        case "constant":
            for index in count():
                yield ((np.arange(_CHUNK) + index * _CHUNK) / rate).astype(np.int64)
        case "bursts":
            size = arrivals.burst_size
            for index in count():
                bursts = (np.arange(_CHUNK) + index * _CHUNK) // size
                yield (bursts * (size / rate)).astype(np.int64)
        case "poisson":
            for expected in _unit_poisson(seed):
                yield (expected / rate).astype(np.int64)
        case "ramp":
            for expected in _unit_poisson(seed):
                yield _when_expected(expected, rate, arrivals.end_rate / _NS, duration_ns)


def _unit_poisson(seed: int) -> Iterator[NDArray[np.float64]]:
    """Arrivals of a Poisson process of rate 1."""
    random = np.random.default_rng(seed)
    last = 0.0
    while True:
        times = last + np.cumsum(random.exponential(size=_CHUNK))
        last = float(times[-1])
        yield times


def _when_expected(expected: NDArray[np.float64], rate: float, end_rate: float, duration_ns: int) -> Times:
    """When a rate that changes linearly has brought `expected` arrivals; never, past the end of the ramp.

    Source: inversion of the cumulative rate (Çinlar 1975), here r t + (e - r) t²/2d, solved for t.
    """
    slope = (end_rate - rate) / duration_ns
    root = rate * rate + 2 * slope * expected
    with np.errstate(invalid="ignore"):
        # This form of the quadratic's solution has no cancellation where the slope is small.
        times = 2 * expected / (rate + np.sqrt(root))
    return np.where(root >= 0, times, duration_ns).astype(np.int64)
