"""Two targets measured in turns."""

import numpy as np
import pytest

from guepard.bench.turns import Turns, take_turns
from guepard.measure.comparison import LEAST_BLOCKS
from guepard.measure.evidence import Evidence
from guepard.measure.results import Estimate, Latency, Run, Steadiness
from guepard.measure.validity import judged
from guepard.settings.bench_reading import BENCH_BY_KEY
from guepard.settings.kinds import Scalar
from tests.unit.measure.sample_runs import CLOSED, generator_of, latency_of, load_of, run_of

UNREST = Steadiness(is_steady=False, throughput_spread=0.5, latency_spread=3.0, drift=0.1, says="uneven")


def turns_of(factor: float, seed: int, *, percent: float | None = None) -> Turns:
    """Ten turns each, in which B takes `factor` times as long, and both drift by a third meanwhile."""
    random = np.random.default_rng(seed)
    taken = 0

    def measure(side: int, index: int) -> Run:
        nonlocal taken
        taken += 1
        slow = (1 + taken / 60) * np.exp(random.normal(0, 0.01)) * (factor if side else 1.0)
        return run_of(target=side, latency=latency_of(p50=10 * slow, p99=40 * slow, p99_9=90 * slow))

    return take_turns(measure, blocks=10, slo_percent=percent)


@pytest.mark.parametrize(("factor", "verdict"), [(0.9, "faster"), (1.1, "slower")])
def test_a_difference_is_found_through_a_drift(factor: float, verdict: str) -> None:
    turns = turns_of(factor, 1)
    assert [each.metric for each in turns.comparisons] == ["p50", "p99"]
    for comparison in turns.comparisons:
        assert comparison.verdict == verdict
        assert comparison.difference.value == pytest.approx(factor - 1, abs=0.02)
        assert comparison.blocks == 10


def test_equals_are_hardly_ever_told_apart() -> None:
    wrong = [turns_of(1.0, seed).comparisons[0].verdict != "cannot tell" for seed in range(200)]
    assert np.mean(wrong) <= 0.05


def test_turns_go_to_and_fro() -> None:
    assert [run.target for run in turns_of(1.0, 1).runs[:8]] == [0, 1, 1, 0, 0, 1, 1, 0]


def test_the_percentile_of_the_goal_comes_first() -> None:
    assert [each.metric for each in turns_of(1.0, 1, percent=99.9).comparisons] == ["p99.9", "p50"]
    assert [each.metric for each in turns_of(1.0, 1, percent=50.0).comparisons] == ["p50"]


def test_throughput_is_compared_where_it_is_not_what_was_asked() -> None:
    def metrics(kept: float, *, is_closed: bool = False) -> list[str]:
        def measure(side: int, index: int) -> Run:
            rate = Estimate(value=1_000.0 * (kept if side else 1.0) + index, low=None, high=None)
            return run_of(target=side, throughput=rate, load=CLOSED if is_closed else load_of())

        return [each.metric for each in take_turns(measure, blocks=5, slo_percent=None).comparisons]

    assert metrics(1.0) == ["p50", "p99"]
    assert metrics(0.8) == ["p50", "p99", "throughput"]
    assert metrics(1.0, is_closed=True) == ["p50", "p99", "throughput"]


def test_a_turn_that_the_generator_spoiled_is_taken_again_once() -> None:
    asked: list[tuple[int, int]] = []
    late = judged(
        Evidence(run=run_of(generator=generator_of(send_lag=latency_of(p50=1.0, p99=9.0))), same_machine=False)
    )

    def measure(side: int, index: int) -> Run:
        asked.append((side, index))
        return late if (side, index) in ((1, 0), (0, 2)) and asked.count((side, index)) < 2 else run_of(target=side)

    turns = take_turns(measure, blocks=5, slo_percent=None)
    assert len(turns.runs) == 10
    assert len(asked) == 12
    assert all(run.is_valid for run in turns.runs)
    assert not take_turns(lambda side, index: late, blocks=5, slo_percent=None).runs[0].is_valid


def test_that_a_turn_is_short_or_uneven_voids_nothing() -> None:
    uneven = judged(Evidence(run=run_of(steadiness=UNREST), same_machine=False))
    assert not uneven.is_valid
    turns = take_turns(lambda side, index: uneven, blocks=5, slo_percent=None)
    assert all(run.is_valid for run in turns.runs)
    assert [finding.severity for finding in turns.runs[0].findings] == ["warning"]


def test_a_turn_without_a_success_leaves_the_verdict_open() -> None:
    nothing = Latency(count=0, effective_count=0, mean_ms=0, min_ms=0, max_ms=0, percentiles=(), histogram="")
    turns = take_turns(
        lambda side, index: run_of(target=side, latency=nothing) if side and index == 3 else run_of(target=side),
        blocks=6,
        slo_percent=None,
    )
    assert [each.verdict for each in turns.comparisons] == ["cannot tell", "cannot tell"]
    assert "no value" in turns.comparisons[0].says


def test_the_command_line_asks_for_enough_turns() -> None:
    kind = BENCH_BY_KEY["question.blocks"].option.kind
    assert isinstance(kind, Scalar)
    assert kind.json_schema["minimum"] == LEAST_BLOCKS
