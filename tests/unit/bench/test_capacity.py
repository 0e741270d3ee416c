"""How much a target can take, by a short closed loop."""

import pytest

from guepard.bench.capacity import Capacity, common_rate, probe_capacity, rounded, usual_rate
from guepard.measure.evidence import Evidence
from guepard.measure.results import Estimate, Run
from guepard.measure.validity import judged
from tests.unit.measure.sample_runs import CLOSED, generator_of, run_of


def closed_run(rate: float, *, failed: int = 0, succeeded: int = 1_000, busy: float = 0.1) -> Run:
    run = run_of(
        load=CLOSED,
        succeeded=succeeded,
        failed=failed,
        sent_rate=rate,
        throughput=Estimate(value=rate, low=None, high=None),
        generator=generator_of(cpu_share=busy),
        slices=(),
    )
    return judged(Evidence(run=run, same_machine=False))


@pytest.mark.parametrize(("instances", "callers"), [(1, 1), (4, 4), (8, 8), (1_000, 64)])
def test_callers_are_doubled_while_it_pays(instances: int, callers: int) -> None:
    seen = []

    def measure(concurrency: int, seconds: float) -> Run:
        seen.append(concurrency)
        return closed_run(100.0 * min(concurrency, instances))

    capacity = probe_capacity(measure)
    assert capacity == Capacity(100.0 * min(instances, 64), callers)
    assert seen == [1, 2, 4, 8, 16, 32, 64][: len(seen)]
    assert len(seen) <= 7


def test_errors_end_the_probe() -> None:
    capacity = probe_capacity(lambda callers, seconds: closed_run(50.0 * callers, failed=20 if callers > 4 else 0))
    assert capacity == Capacity(200.0, 4)


def test_a_target_that_answers_nothing_can_take_nothing() -> None:
    assert probe_capacity(lambda callers, seconds: closed_run(0.0, succeeded=0, failed=9)).rate == 0


def test_the_limit_of_the_generator_is_said() -> None:
    capacity = probe_capacity(lambda callers, seconds: closed_run(1e4 * callers, busy=1.0 if callers > 2 else 0.5))
    assert capacity == Capacity(4e4, 4, by_generator=True)


def test_rates_that_are_chosen_can_be_typed() -> None:
    assert usual_rate(Capacity(1234.5, 8)) == 617
    assert common_rate(Capacity(1234.5, 8), Capacity(100.0, 1)) == 60
    assert rounded(0.123456) == 0.123
    assert rounded(98765) == 98_800
