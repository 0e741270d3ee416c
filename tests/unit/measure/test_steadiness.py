"""Steady servers are called steady, and those that change are not."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator, default_rng

from guepard.measure.results import Steadiness
from guepard.measure.steadiness import judge
from tests.unit.measure.samples import Floats, draw_queue

SECOND = 1_000_000_000
RUNS = 60
Requests = tuple[Floats, Floats]
"""When each was due, in seconds, and how long it took."""
Draw = Callable[[Generator, float, float], Requests]
"""From rate and duration."""


def judged(requests: Requests, seconds: float, q: float = 0.99) -> Steadiness:
    due, latency = (np.round(values * SECOND).astype(np.int64) for values in requests)
    return judge(due + latency, due, latency, (0, round(seconds * SECOND)), q)


def poisson(random: Generator, rate: float, seconds: float) -> Requests:
    count = random.poisson(rate * seconds)
    return np.sort(random.uniform(0, seconds, count)), random.lognormal(-4, 0.5, count)


def constant(random: Generator, rate: float, seconds: float) -> Requests:
    due = np.arange(0, seconds, 1 / rate)
    return due, random.lognormal(-4, 0.2, len(due))


def closed_loop(random: Generator, rate: float, seconds: float) -> Requests:
    latency = random.lognormal(-np.log(rate), 0.3, round(2 * rate * seconds))
    due = np.concatenate([[0.0], latency.cumsum()[:-1]])
    return due[due < seconds], latency[due < seconds]


def queue(random: Generator, rate: float, seconds: float) -> Requests:
    """A queue with one server at a load of 0.5; each request waits for those before it."""
    count = round(rate * seconds)
    latency = draw_queue(random, 1, count, 0.5, is_constant=False)[0] * 0.5 / rate
    return np.sort(random.uniform(0, seconds, count)), latency


def alternating(random: Generator, rate: float, seconds: float, times: float = 2, half_s: float = 1) -> Requests:
    """Fast for a second, slow for a second; nobody knows when it began."""
    due, latency = poisson(random, rate, seconds)
    is_slow = (due + random.uniform(0, 2 * half_s)) % (2 * half_s) < half_s
    return due, latency * np.where(is_slow, times, 1)


def unsteady_count(draw: Callable[[Generator], Requests], seconds: float, runs: int = RUNS) -> int:
    random = default_rng(1)
    return sum(not judged(draw(random), seconds).is_steady for _ in range(runs))


@pytest.mark.parametrize("draw", [poisson, constant, closed_loop, queue])
@pytest.mark.parametrize(("rate", "seconds"), [(30, 20), (100, 5), (100, 30)])
def test_steady_servers_are_called_steady(draw: Draw, rate: float, seconds: float) -> None:
    assert unsteady_count(lambda random: draw(random, rate, seconds), seconds) <= RUNS / 20


@pytest.mark.slow
@pytest.mark.parametrize("draw", [poisson, constant, closed_loop, queue])
@pytest.mark.parametrize(("rate", "seconds"), [(30, 10), (50, 60), (200, 10)])
def test_steady_servers_are_called_steady_in_many_runs(draw: Draw, rate: float, seconds: float) -> None:
    assert unsteady_count(lambda random: draw(random, rate, seconds), seconds, 1_000) <= 50


@pytest.mark.parametrize(("rate", "seconds", "times"), [(50, 10, 2), (50, 30, 3), (200, 10, 1.5), (200, 30, 1.3)])
def test_fast_and_slow_seconds_are_found(rate: float, seconds: float, times: float) -> None:
    assert unsteady_count(lambda random: alternating(random, rate, seconds, times), seconds) == RUNS


def test_less_than_a_millisecond_may_be_the_machines() -> None:
    due, latency = alternating(default_rng(3), 500, 20, 2)
    assert not judged((due, latency), 20).is_steady
    assert judged((due, latency / 200), 20).is_steady


@pytest.mark.parametrize("half_s", [1.2, 2, 5])
def test_longer_turns_are_found(half_s: float) -> None:
    assert unsteady_count(lambda random: alternating(random, 200, 30, 1.5, half_s), 30, 30) == 30


def test_the_spread_is_told() -> None:
    found = judged(alternating(default_rng(2), 500, 20, 3), 20)
    assert found.says.startswith("unsteady over 20 windows of 1 s: p50 differs by 1")
    assert "between windows, where chance makes " in found.says
    assert found.latency_spread > 0.5


def test_a_closed_loop_that_alternates_shows_in_its_throughput() -> None:
    random = default_rng(3)
    due, latency = [0.0], []
    while due[-1] < 20:
        latency.append((0.005 if int(due[-1]) % 2 == 0 else 0.02) * random.normal(1, 0.05))
        due.append(due[-1] + latency[-1])
    found = judged((np.array(due[:-1]), np.array(latency)), 20)
    assert not found.is_steady
    assert "throughput differs by 1" in found.says
    assert found.throughput_spread > 1


def test_a_stall_of_a_second_every_five_is_found() -> None:
    """In an open loop everything that was due meanwhile waits."""
    due, latency = constant(default_rng(4), 100, 20)
    latency += np.maximum(1 - (due + 2) % 5, 0)
    assert not judged((due, latency), 20).is_steady


@pytest.mark.parametrize("change", [0.5, -0.4, 2])
def test_a_drift_over_the_run_is_found(change: float) -> None:
    def draw(random: Generator) -> Requests:
        due, latency = poisson(random, 200, 30)
        return due, latency * (1 + change * due / 30)

    assert unsteady_count(draw, 30, 50) == 50
    found = judged(draw(default_rng(5)), 30)
    assert f"changes by {'+' if change > 0 else '-'}" in found.says
    assert "from the first to the last third" in found.says
    thirds = (1 + change * 5 / 6) / (1 + change / 6) - 1
    assert found.drift == pytest.approx(thirds, abs=0.25)


def test_a_step_in_the_middle_is_found() -> None:
    due, latency = poisson(default_rng(6), 100, 30)
    assert not judged((due, np.where(due > 18, 1.5, 1) * latency), 30).is_steady


def test_a_small_difference_is_steady_however_sure_it_is() -> None:
    """Five percent, in a run of two hundred thousand requests."""
    due, latency = constant(default_rng(7), 10_000, 20)
    found = judged((due, latency * np.where(due % 2 < 1, 1.05, 1)), 20)
    assert found.is_steady
    assert found.says.startswith("steady over 20 windows of 1 s: throughput differs by ")


def test_figures_are_told_of_a_steady_run_too() -> None:
    found = judged(constant(default_rng(8), 100, 10), 10)
    assert found.is_steady
    assert 0 <= found.throughput_spread < 0.05
    assert 0 < found.latency_spread < 0.5
    assert abs(found.drift) < 0.3


@pytest.mark.parametrize(("rate", "seconds"), [(1_000, 0.5), (1_000, 2.9), (5, 10), (0.2, 10)])
def test_too_short(rate: float, seconds: float) -> None:
    requests = constant(default_rng(9), rate, seconds)
    found = judged(requests, seconds)
    assert not found.is_steady
    assert found.says == (
        f"too short: {len(requests[0])} requests in {seconds:g} s; "
        "steadiness is judged over at least 3 windows of 1 s and 20 requests"
    )


def test_no_requests() -> None:
    found = judged((np.array([]), np.array([])), 10)
    assert (found.is_steady, found.says[:10]) == (False, "too short:")


def test_what_lies_outside_of_the_window_does_not_count() -> None:
    due, latency = constant(default_rng(10), 100, 30)
    latency[due > 20] *= 10
    assert judged((due, latency), 20).is_steady
    assert not judged((due, latency), 30).is_steady


def test_order_does_not_matter() -> None:
    due, latency = alternating(default_rng(11), 200, 10)
    shuffled = default_rng(12).permutation(len(due))
    assert judged((due, latency), 10) == judged((due[shuffled], latency[shuffled]), 10)


def test_equal_latencies() -> None:
    due = np.arange(0, 10, 0.01)
    found = judged((due, np.full(len(due), 0.002)), 10, 0.5)
    assert found.is_steady
    assert (found.latency_spread, found.drift) == (0, 0)


def test_a_server_that_died_half_way() -> None:
    due, latency = constant(default_rng(13), 100, 10)
    found = judged((due[:500], latency[:500]), 10)
    assert not found.is_steady
    assert "throughput" in found.says
