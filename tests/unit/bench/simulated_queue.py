"""A queue before one server, simulated: Poisson arrivals, exponential service. Its true percentiles are known.

Source: the time that a request spends in an M/M/1 queue is exponential with rate mu - lambda; L. Kleinrock, Queueing
Systems I, 3.2.
"""

import math

import msgspec
import numpy as np

from guepard.measure.results import Estimate, Latency, Percentile, Run, Slo, Window
from tests.unit.measure.sample_runs import latency_of, load_of, run_of

_BLOCKS = 20
_T_19 = 2.093


class SimulatedQueue:
    """Serves `capacity` requests a second, and a fixed time on top that needs no server."""

    def __init__(self, capacity: float, seed: int, fixed_ms: float = 0.0) -> None:
        self.capacity = capacity
        self.seconds = 0.0
        self._random = np.random.default_rng(seed)
        self._fixed_ms = fixed_ms

    def edge(self, slo: Slo) -> float:
        """The rate at which the percentile is the limit."""
        return self.capacity - math.log(1 / (1 - slo.percent / 100)) / ((slo.limit_ms - self._fixed_ms) / 1e3)

    def measure(self, rate: float, seconds: float) -> Run:
        """A run of an open loop on an empty queue."""
        self.seconds += seconds
        count = max(50, self._random.poisson(rate * seconds))
        gaps = np.cumsum(self._random.exponential(1, count + 1))
        arrivals = gaps[:-1] * (seconds / gaps[-1])
        services = self._random.exponential(1 / self.capacity, count)
        total = np.cumsum(services)
        ends = total + np.maximum.accumulate(arrivals - (total - services))
        latency = (ends - arrivals) * 1e3 + self._fixed_ms
        done = np.count_nonzero(ends <= seconds)
        return run_of(
            load=load_of(rate=rate, duration_s=seconds),
            window=Window(start_s=0.0, end_s=seconds, warm_up="none"),
            offered=count,
            succeeded=count,
            offered_rate=count / seconds,
            sent_rate=count / seconds,
            throughput=Estimate(value=done / seconds, low=None, high=None),
            mean_in_flight=float(latency.sum()) / 1e3 / seconds,
            latency=_summary(latency),
            slices=(),
        )


def _summary(latency: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Latency:
    value = float(np.quantile(latency, 0.99))
    of_blocks = [float(np.quantile(block, 0.99)) for block in np.array_split(latency, _BLOCKS)]
    reach = _T_19 * float(np.std(of_blocks, ddof=1)) / math.sqrt(_BLOCKS)
    percentile = Percentile(
        percent=99, value_ms=value, low_ms=value - reach, high_ms=value + reach, is_supported=True, needed=1_000
    )
    return msgspec.structs.replace(latency_of(len(latency)), percentiles=(percentile,))
