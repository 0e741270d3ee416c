"""Is a backlog building up? Simulated queues, in which it does and does not."""

import numpy as np
import pytest
from numpy.typing import NDArray

from guepard.measure.saturation import backlog_growth, is_hopeless

TIMES = [0.25 * step for step in range(1, 21)]


def in_flight(generator: np.random.Generator, utilisation: float) -> NDArray[np.int64]:
    """Requests in flight of a single server at TIMES, for 1,000 Poisson arrivals a second."""
    arrivals = np.cumsum(generator.exponential(1e-3, 6_000))
    services = generator.exponential(utilisation * 1e-3, 6_000)
    total = np.cumsum(services)
    ends = total + np.maximum.accumulate(arrivals - (total - services))
    return np.searchsorted(arrivals, TIMES) - np.searchsorted(np.sort(ends), TIMES)


def test_a_straight_line_is_known_exactly() -> None:
    growth = backlog_growth(TIMES, [3 + 40 * at for at in TIMES])
    assert growth is not None
    assert growth.slope == pytest.approx(40)
    assert growth.low == pytest.approx(growth.high)


def test_too_few_samples_say_nothing() -> None:
    assert backlog_growth([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]) is None
    assert backlog_growth([1] * 10, list(range(10))) is None


def test_the_interval_holds_the_truth_for_independent_samples() -> None:
    generator = np.random.default_rng(2)
    held = 0
    for _ in range(1_000):
        growth = backlog_growth(TIMES, (5 * np.array(TIMES) + generator.normal(0, 10, len(TIMES))).tolist())
        assert growth is not None
        held += growth.low <= 5 <= growth.high
    assert held >= 930


def test_a_run_at_twice_the_capacity_is_hopeless_and_one_below_it_is_not() -> None:
    generator = np.random.default_rng(3)
    seen = {0.9: 0, 2.0: 0}
    for utilisation in seen:
        for _ in range(200):
            counts = in_flight(generator, utilisation).tolist()
            seen[utilisation] += any(
                is_hopeless(TIMES[:end], counts[:end], rate=1_000, limit_s=0.05) for end in range(1, len(TIMES) + 1)
            )
    assert seen == {0.9: 0, 2.0: 200}


def test_nothing_is_hopeless_before_its_time() -> None:
    times, counts = [0.1 * step for step in range(1, 9)], [100 * step for step in range(1, 9)]
    assert not is_hopeless(times, counts, rate=1_000, limit_s=0.01)
    assert is_hopeless(times, counts, rate=1_000, limit_s=0.01, lead_s=0.5)
    assert not is_hopeless(times, counts, rate=1_000, limit_s=5, lead_s=0.5)
    assert not is_hopeless([], [], rate=1, limit_s=1)
