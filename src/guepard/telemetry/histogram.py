"""Latency histograms that cost one list append per observation.

Bounds are fixed, so that histograms of different models, workers and days can be added up, and the same for every
duration, so that phases can be compared with the whole. Steps of 1, 2.5 and 5 in each decade place every quantile
within a factor of 2.5 and give labels that people can read. 10 µs is less than any front end needs for one request;
100 s is more than three times the default time-out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Durations = NDArray[np.int64]

NANOSECONDS = 1_000_000_000

LATENCY_BOUNDS_NS: tuple[int, ...] = (
    *(mantissa * 10**exponent for exponent in range(3, 10) for mantissa in (10, 25, 50)),
    100 * NANOSECONDS,
)
LATENCY_BOUNDS_SECONDS: tuple[float, ...] = tuple(bound / NANOSECONDS for bound in LATENCY_BOUNDS_NS)

BATCH_SIZE_BOUNDS: tuple[float, ...] = tuple(float(2**exponent) for exponent in range(11))

_BOUNDS: Durations = np.array(LATENCY_BOUNDS_NS, np.int64)
_BUCKET_COUNT = len(LATENCY_BOUNDS_NS) + 1

# Integers that may wait for the next fold: numpy's fixed cost is spread over them, and a fold stays below 0.1 ms.
_PENDING_LIMIT = 1_024


@dataclass(frozen=True, slots=True)
class HistogramSnapshot:
    """What a histogram held when it was read.

    Units: `bounds` in seconds for latencies, in rows for batch sizes; they are inclusive upper bounds, as Prometheus
        has them. `cumulative` has one entry more than `bounds`: the last counts everything. `total` is the exact sum
        of the observations, in nanoseconds for latencies.
    """

    bounds: tuple[float, ...]
    cumulative: tuple[int, ...]
    total: int

    @property
    def count(self) -> int:
        return self.cumulative[-1]


class LatencyHistogram:
    """Durations in nanoseconds, counted by bucket and summed exactly. Belongs to one thread."""

    __slots__ = ("_counts", "_pending", "_total_ns")

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKET_COUNT, np.int64)
        self._total_ns = 0
        self._pending: list[int] = []

    def append(self, duration_ns: int) -> None:
        """Count one duration. Cost: a list append; every 1,024th call sorts the pending ones into their buckets."""
        pending = self._pending
        pending.append(duration_ns)
        if len(pending) >= _PENDING_LIMIT:
            self._fold()

    def observe(self, durations_ns: Durations, repeats: Durations | None = None) -> None:
        """Count many durations at once, duration i `repeats[i]` times (once, without `repeats`)."""
        buckets = _BOUNDS.searchsorted(durations_ns)
        if repeats is None:
            self._counts += np.bincount(buckets, minlength=_BUCKET_COUNT)
            self._total_ns += int(durations_ns.sum())
        else:
            np.add.at(self._counts, buckets, repeats)
            self._total_ns += int(durations_ns @ repeats)

    def snapshot(self) -> HistogramSnapshot:
        self._fold()
        return HistogramSnapshot(LATENCY_BOUNDS_SECONDS, tuple(self._counts.cumsum().tolist()), self._total_ns)

    def _fold(self) -> None:
        if self._pending:
            self.observe(np.array(self._pending, np.int64))
            self._pending.clear()


def batch_size_histogram(executions_by_size: dict[int, int]) -> HistogramSnapshot:
    """Executions by their rows, in powers of two up to 1,024."""
    cumulative = [sum(n for size, n in executions_by_size.items() if size <= bound) for bound in BATCH_SIZE_BOUNDS]
    cumulative.append(sum(executions_by_size.values()))
    total = sum(size * count for size, count in executions_by_size.items())
    return HistogramSnapshot(BATCH_SIZE_BOUNDS, tuple(cumulative), total)
