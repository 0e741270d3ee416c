"""The highest rate that keeps a goal, on queues whose edge is known."""

from typing import Any

import msgspec
import numpy as np
import pytest

from guepard.bench.find_max import SearchPlan, find_max, judge
from guepard.measure.evidence import Evidence
from guepard.measure.results import Edge, Estimate, Run, Slo
from guepard.measure.validity import judged
from tests.unit.bench.simulated_queue import SimulatedQueue
from tests.unit.measure.sample_runs import error_of, generator_of, latency_of, run_of

SLO = Slo(percent=99, limit_ms=50)
SEEDS = 80


def exact(rate: float, edge: float, **changes: Any) -> Run:
    """A run without noise: 40 ms below the edge, 60 ms above it."""
    p99 = 40.0 if rate <= edge else 60.0
    values = {
        "latency": latency_of(p50=10.0, p99=p99),
        "offered_rate": rate,
        "sent_rate": rate,
        "throughput": Estimate(value=rate, low=rate, high=rate),
    }
    return run_of(**{**values, **changes})


def starved(rate: float) -> Run:
    """A run whose generator was late."""
    late = exact(rate, 1e9, generator=generator_of(send_lag=latency_of(p50=1.0, p99=30.0)))
    return judged(Evidence(run=late, same_machine=False))


@pytest.mark.parametrize(
    ("limit_ms", "fixed_ms"),
    [
        pytest.param(2.5, 0.0, id="near the capacity"),
        pytest.param(0.8, 0.0, id="far below it"),
        pytest.param(41.0, 40.0, id="with a fixed time"),
    ],
)
def test_the_edge_is_found_within_a_tenth_and_hardly_ever_overstated(limit_ms: float, fixed_ms: float) -> None:
    slo = Slo(percent=99, limit_ms=limit_ms)
    edge = SimulatedQueue(10_000, 0, fixed_ms).edge(slo)
    answers = []
    held = 0
    for seed in range(SEEDS):
        queue = SimulatedQueue(10_000, seed, fixed_ms)
        found = find_max(queue.measure, slo, SearchPlan(start=3_000, short_s=0.5, long_s=6))
        assert found.rate is not None
        assert found.confirmed
        assert queue.seconds < 120
        answers.append(found.rate.value)
        held += (found.rate.low or 0) <= edge <= (found.rate.high or 1e9)
    ratios = np.array(answers) / edge
    assert np.mean(np.abs(ratios - 1) <= 0.1) >= 0.95
    assert np.mean(ratios > 1.1) <= 0.005
    assert held >= 0.9 * SEEDS


def search(edge: float, *, start: float = 100, **changes: Any) -> tuple[Edge, list[tuple[float, float]]]:
    """The answer for noiseless runs, and the runs that it took."""
    looks: list[tuple[float, float]] = []

    def measure(rate: float, seconds: float) -> Run:
        looks.append((rate, seconds))
        return exact(rate, edge, **changes)

    return find_max(measure, SLO, SearchPlan(start=start, short_s=5, long_s=30)), looks


@pytest.mark.parametrize("start", [1.0, 90.0, 487.0, 3_000.0])
def test_the_start_does_not_matter(start: float) -> None:
    found, looks = search(487, start=start)
    assert found.rate is not None
    assert found.lowest_failing is not None
    assert 487 / 1.05 <= found.rate.value <= 487 < found.lowest_failing <= 487 * 1.06
    assert found.rate.low == found.rate.value
    assert found.rate.high == found.lowest_failing
    assert found.confirmed
    assert looks[-1] == (found.rate.value, 30)
    assert len(looks) <= 35


def test_the_answer_says_what_holds_and_what_does_not() -> None:
    found, _ = search(487)
    assert found.rate is not None
    assert found.lowest_failing is not None
    assert found.says == (
        f"{found.rate.value:g}/s keeps p99 within 50 ms, {found.lowest_failing:g} certainly not; "
        f"at {found.lowest_failing:g}/s p99 is 60 ms"
    )


def test_slow_targets_get_runs_long_enough_for_their_percentile() -> None:
    _, looks = search(100, start=80)
    rate, seconds = looks[0]
    assert rate == 80
    assert seconds == pytest.approx(25)


def test_where_no_rate_keeps_the_goal_there_is_no_answer() -> None:
    found, _ = search(0)
    assert found.rate is None
    assert not found.confirmed
    assert "not even" in found.says
    assert "p99 is 60 ms" in found.says


def test_errors_are_no_way_to_be_fast() -> None:
    def measure(rate: float, seconds: float) -> Run:
        if rate > 300:
            return exact(rate, 1e9, succeeded=9_000, failed=1_000, errors=(error_of(429, 1_000),))
        return exact(rate, 1e9)

    found = find_max(measure, SLO, SearchPlan(start=100))
    assert found.rate is not None
    assert 285 <= found.rate.value <= 300
    assert "10 % of the requests failed" in found.says


def test_a_target_that_cannot_keep_up_misses_whatever_its_percentile() -> None:
    def measure(rate: float, seconds: float) -> Run:
        return exact(rate, 1e9, throughput=Estimate(value=min(rate, 400.0), low=None, high=None))

    found = find_max(measure, SLO, SearchPlan(start=100))
    assert found.rate is not None
    assert 380 <= found.rate.value <= 420


def test_the_limit_of_the_generator_is_not_that_of_the_target() -> None:
    found = find_max(
        lambda rate, seconds: exact(rate, 1e9) if rate <= 700 else starved(rate), SLO, SearchPlan(start=100)
    )
    assert found.rate is not None
    assert 660 <= found.rate.value <= 700
    assert found.rate.high is None
    assert found.lowest_failing is None
    assert found.says.startswith("at least ")
    assert "add --processes" in found.says


def test_a_generator_that_is_at_its_limit_at_once_gives_way() -> None:
    found = find_max(
        lambda rate, seconds: exact(rate, 1e9) if rate <= 30 else starved(rate), SLO, SearchPlan(start=1_000)
    )
    assert found.rate is not None
    assert 28 <= found.rate.value <= 30
    assert found.says.startswith("at least ")


def test_a_target_without_an_edge_is_not_loaded_for_ever() -> None:
    found, looks = search(1e12)
    assert found.rate is not None
    assert found.rate.value <= 5_000_000
    assert found.says.startswith("at least ")
    assert len(looks) < 25


def test_one_pause_of_the_machine_is_no_edge() -> None:
    seen: set[float] = set()

    def measure(rate: float, seconds: float) -> Run:
        is_first = rate not in seen
        seen.add(rate)
        return exact(rate, 0 if is_first else 487)

    found = find_max(measure, SLO, SearchPlan(start=100))
    assert found.rate is not None
    assert 487 / 1.05 <= found.rate.value <= 487


def test_a_run_that_cannot_tell_is_repeated_as_long_as_the_last_one() -> None:
    looks: list[tuple[float, float]] = []

    def measure(rate: float, seconds: float) -> Run:
        looks.append((rate, seconds))
        run = exact(rate, 487)
        percentile = run.latency.at(99)
        assert percentile is not None
        unsure = msgspec.structs.replace(percentile, low_ms=None, high_ms=None)
        return msgspec.structs.replace(run, latency=msgspec.structs.replace(run.latency, percentiles=(unsure,)))

    found = find_max(measure, SLO, SearchPlan(start=400, short_s=5, long_s=30))
    assert looks[:2] == [(400, 5), (400, 30)]
    assert found.rate is not None
    assert (found.rate.low, found.rate.high) == (None, None)


def test_an_answer_that_a_long_run_does_not_confirm_is_lowered() -> None:
    found = find_max(
        lambda rate, seconds: exact(rate, 487 if seconds < 30 else 400), SLO, SearchPlan(start=100, long_s=30)
    )
    assert found.rate is not None
    assert 360 <= found.rate.value <= 400
    assert found.confirmed


def test_a_target_that_keeps_nothing_for_long_has_no_answer() -> None:
    found = find_max(
        lambda rate, seconds: exact(rate, 487 if seconds < 30 else 0), SLO, SearchPlan(start=100, long_s=30)
    )
    assert found.rate is None
    assert not found.confirmed
    assert "though shorter runs did" in found.says


def test_what_is_said_of_a_run() -> None:
    kept = judge(exact(100, 487), SLO, 0.01)
    assert (kept.keeps, kept.is_sure, kept.is_certain) == (True, True, True)
    close = judge(exact(100, 487, latency=latency_of(p50=1.0, p99=49.2)), SLO, 0.01)
    assert (close.keeps, close.is_sure, close.is_certain) == (True, False, False)
    nearly = judge(exact(100, 487, latency=latency_of(p50=1.0, p99=48.9)), SLO, 0.01)
    assert (nearly.keeps, nearly.is_sure, nearly.is_certain) == (True, True, False)
    assert not judge(exact(100, 487, succeeded=0, failed=0), SLO, 0.01).keeps
    assert judge(exact(100, 487, succeeded=9_500, failed=500), SLO, 0.1).keeps
    assert judge(starved(100), SLO, 0.01).by_generator
