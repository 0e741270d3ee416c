"""The end of warming up, on time lines whose end is known."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator, default_rng

from guepard.measure.warm_up import WarmUp, find_warm_up
from tests.unit.measure.samples import Floats, Integers, draw_queue

MILLISECOND = 1e6
SLICES = 60


def poisson_lines(random: Generator, slices: int, per_slice: int) -> tuple[Integers, Floats]:
    """Poisson arrivals in an open loop, latencies that have nothing to do with each other."""
    counts = random.poisson(per_slice, slices)
    medians = np.array([np.median(random.lognormal(0, 0.5, count)) if count else np.nan for count in counts])
    return counts.astype(np.int64), medians * MILLISECOND


def queue_lines(random: Generator, slices: int, per_slice: int) -> tuple[Integers, Floats]:
    """A queue with one server at a load of 0.7."""
    latency = draw_queue(random, 1, slices * per_slice, 0.7, is_constant=False)[0]
    counts = random.poisson(per_slice, slices).astype(np.int64)
    return counts, np.median(latency.reshape(slices, per_slice), axis=1) * MILLISECOND


def closed_lines(random: Generator, slowness: Floats) -> tuple[Integers, Floats]:
    """A closed loop: slower answers are fewer ones."""
    counts = np.round(500 / slowness * random.normal(1, 0.01, len(slowness))).astype(np.int64)
    return counts, slowness * random.normal(1, 0.01, len(slowness)) * MILLISECOND


def ends(lines: Callable[[Generator], tuple[Integers, Floats]], runs: int) -> list[float]:
    random = default_rng(1)
    return [find_warm_up(*lines(random), 1.0).end_s for _ in range(runs)]


@pytest.mark.parametrize("draw", [poisson_lines, queue_lines])
@pytest.mark.parametrize(("slices", "per_slice"), [(12, 50), (SLICES, 30), (SLICES, 200)])
def test_a_settled_run_is_hardly_ever_cut(
    draw: Callable[[Generator, int, int], tuple[Integers, Floats]], slices: int, per_slice: int
) -> None:
    """At most one in twenty loses more than a twentieth."""
    cut = [end > slices / 20 for end in ends(lambda random: draw(random, slices, per_slice), 100)]
    assert sum(cut) <= 5


@pytest.mark.parametrize("length", [1, 3, 10, 25])
@pytest.mark.parametrize("times", [1.3, 3, 100])
def test_a_slow_beginning_is_cut_where_it_ends(length: int, times: float) -> None:
    slowness = np.where(np.arange(SLICES) < length, times, 1.0)
    found = ends(lambda random: closed_lines(random, slowness), 20)
    assert float(np.median(found)) == length
    assert max(abs(end - length) for end in found) <= 3


def test_a_fast_beginning_is_cut_as_well() -> None:
    """As long as queues and caches are empty."""
    slowness = np.where(np.arange(SLICES) < 6, 0.5, 1.0)
    found = find_warm_up(*closed_lines(default_rng(2), slowness), 0.5)
    assert found.end_s == 3
    assert found.says in (
        "the first 3 s are cut: latency was 0.5 times that of later",
        "the first 3 s are cut: throughput was 2 times that of later",
    )


def test_latency_alone_shows_it_in_an_open_loop() -> None:
    counts, medians = poisson_lines(default_rng(3), SLICES, 100)
    medians[:5] *= 4
    found = find_warm_up(counts, medians, 1.0)
    assert found.end_s == 5
    assert found.says.startswith("the first 5 s are cut: latency was ")


@pytest.mark.parametrize("time_constant", [2, 5])
def test_a_gradual_approach_is_followed_to_its_end(time_constant: float) -> None:
    slowness = 1 + 3 * np.exp(-np.arange(SLICES) / time_constant)
    for end in ends(lambda random: closed_lines(random, slowness), 20):
        assert 2.5 * time_constant <= end <= SLICES / 2
        assert slowness[int(end)] < 1.25


def test_a_server_that_was_not_there_at_first() -> None:
    counts, medians = poisson_lines(default_rng(4), SLICES, 100)
    counts[:7] = 0
    medians[:7] = np.nan
    assert find_warm_up(counts, medians, 1.0).end_s == 7


@pytest.mark.parametrize("change", [0.5, -0.3, 3.0, -0.8])
def test_a_drift_over_the_whole_run_is_no_warming_up(change: float) -> None:
    slowness = 1 + change * np.arange(SLICES) / SLICES
    random = default_rng(5)
    for _ in range(10):
        found = find_warm_up(*closed_lines(random, slowness), 1.0)
        assert found == WarmUp(0.0, "nothing cut: the run changed until its end, no part of it was settled")


@pytest.mark.parametrize("length", [35, 45, 55])
def test_never_more_than_half_is_cut(length: int) -> None:
    slowness = np.where(np.arange(SLICES) < length, 3.0, 1.0)
    assert all(end <= SLICES / 2 for end in ends(lambda random: closed_lines(random, slowness), 20))


def test_a_pause_in_the_middle_is_no_warming_up() -> None:
    slowness = np.ones(SLICES)
    slowness[20:22] = 50
    assert ends(lambda random: closed_lines(random, slowness), 20) == [0] * 20


def test_turns_of_fast_and_slow_are_no_warming_up() -> None:
    slowness = np.tile([1.0, 5.0], SLICES // 2)
    assert ends(lambda random: closed_lines(random, slowness), 20) == [0] * 20


def test_equal_slices() -> None:
    found = find_warm_up(np.full(20, 100), np.full(20, 5e6), 1.0)
    assert found == WarmUp(0.0, "nothing cut: the beginning was like the rest")


def test_too_few_slices() -> None:
    found = find_warm_up(np.array([1, 9, 9]), np.array([9e6, 1e6, 1e6]), 0.5)
    assert found == WarmUp(0.0, "nothing cut: 3 slices of 0.5 s are too few to see an end of warming up")


def test_requests_that_take_several_slices() -> None:
    """One request of five seconds after the other: two of three slices have none."""
    counts = np.zeros(20, np.int64)
    counts[[5, 10, 15]] = 1
    medians = np.full(20, np.nan)
    medians[[0, 5, 10]] = 5e9
    found = find_warm_up(counts, medians, 1.0)
    assert found == WarmUp(0.0, "nothing cut: too few successes to see an end of warming up")


def test_nothing_succeeded() -> None:
    assert find_warm_up(np.zeros(30, np.int64), np.full(30, np.nan), 1.0).end_s == 0
