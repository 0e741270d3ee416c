"""Intended send times."""

import numpy as np
import pytest
from numpy.typing import NDArray

from guepard.measure.load.arrivals import send_times
from guepard.measure.load.plan import Arrivals

SECOND = 1_000_000_000


def times_of(arrivals: Arrivals, seconds: float = 10, requests: int = 0, seed: int = 1) -> NDArray[np.int64]:
    chunks = list(send_times(arrivals, duration_ns=int(seconds * SECOND), requests=requests, seed=seed))
    return np.concatenate(chunks) if chunks else np.array([], np.int64)


def test_constant_times_are_evenly_spaced_and_end_with_the_run() -> None:
    times = times_of(Arrivals(kind="constant", rate=3_000.0))
    assert len(times) == 30_000
    assert times[0] == 0
    assert set(np.diff(times).tolist()) <= {333_333, 333_334}


def test_poisson_times_have_exponential_gaps_at_the_rate() -> None:
    gaps = np.diff(times_of(Arrivals(kind="poisson", rate=2_000.0), seconds=50)) / SECOND
    assert gaps.mean() == pytest.approx(1 / 2_000, rel=0.02)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.02)
    assert np.mean(gaps > 1 / 2_000) == pytest.approx(np.exp(-1), abs=0.01)


def test_a_seed_gives_the_same_times_and_another_others() -> None:
    arrivals = Arrivals(kind="poisson", rate=100.0)
    assert np.array_equal(times_of(arrivals, seed=3), times_of(arrivals, seed=3))
    assert not np.array_equal(times_of(arrivals, seed=3)[:50], times_of(arrivals, seed=4)[:50])


def test_bursts_come_together_and_keep_the_rate() -> None:
    times = times_of(Arrivals(kind="bursts", rate=1_000.0, burst_size=20))
    moments, sizes = np.unique(times, return_counts=True)
    assert set(sizes.tolist()) == {20}
    assert set(np.diff(moments).tolist()) == {SECOND // 50}


@pytest.mark.parametrize(("first", "last"), [(100.0, 1_000.0), (1_000.0, 100.0), (0.0, 500.0), (500.0, 0.0)])
def test_a_ramp_brings_as_many_as_the_area_under_it(first: float, last: float) -> None:
    times = times_of(Arrivals(kind="ramp", rate=first, end_rate=last), seconds=20)
    assert len(times) == pytest.approx((first + last) / 2 * 20, rel=0.05)
    halfway = (first + (first + last) / 2) / 2 * 10
    assert np.sum(times < 10 * SECOND) == pytest.approx(halfway, rel=0.1)
    assert np.all(np.diff(times) >= 0)
    assert times[-1] < 20 * SECOND


def test_a_trace_is_replayed_as_it_was() -> None:
    trace = (0, 5_000, 5_000, 9 * SECOND)
    assert tuple(times_of(Arrivals(kind="trace", times_ns=trace)).tolist()) == trace


def test_the_number_of_requests_bounds_any_arrivals() -> None:
    assert len(times_of(Arrivals(kind="poisson", rate=5_000.0), requests=10_001)) == 10_001
    assert len(times_of(Arrivals(kind="constant", rate=10.0), requests=7)) == 7
    assert len(times_of(Arrivals(kind="trace", times_ns=(1, 2, 3)), requests=2)) == 2
