"""Loads in the manner of MLPerf's scenarios."""

from typing import get_args

import pytest

from guepard.bench.scenarios import SCENARIOS, ScenarioName, figure_of, scenario_finding
from guepard.measure.results import Estimate, Window
from guepard.settings.bench_options import BenchOptions
from guepard.settings.bench_reading import BENCH_BY_KEY, read_bench_options
from guepard.settings.kinds import Choice
from tests.unit.measure.sample_runs import latency_of, run_of

LONG = Window(start_s=10.0, end_s=611.0, warm_up="auto")


def test_there_is_one_for_every_name_on_the_command_line() -> None:
    kind = BENCH_BY_KEY["question.scenario"].option.kind
    assert isinstance(kind, Choice)
    assert set(SCENARIOS) == set(kind.values) == set(get_args(ScenarioName))


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_unless_it_is_shortened_a_run_is_as_long_as_mlperfs(name: str) -> None:
    flags: dict[str, object] = {"question.scenario": name}
    if name == "server":
        flags["question.find_max"] = "p99=10ms"
    options: BenchOptions = read_bench_options("localhost:8000", flags)
    assert options.duration / 1e9 >= SCENARIOS[name].minimum_s


def test_a_short_run_says_so() -> None:
    found = scenario_finding(SCENARIOS["offline"], run_of(succeeded=1_000), 4)
    assert found.severity == "note"
    assert found.reason.endswith("no MLPerf result; not MLPerf's length, 10 s of 600 s and 4,000 of 24,576 samples")
    found = scenario_finding(SCENARIOS["multi-stream"], run_of(succeeded=600, window=LONG), 8)
    assert found.reason.endswith("not MLPerf's length, 600 of 662 requests")


def test_a_long_run_says_that_it_is_no_mlperf_result_all_the_same() -> None:
    found = scenario_finding(SCENARIOS["offline"], run_of(succeeded=30_000, window=LONG), 1)
    assert found.reason.endswith(": no MLPerf result")


def test_the_figure_is_the_scenarios() -> None:
    run = run_of(throughput=Estimate(value=100.0, low=None, high=None), latency=latency_of(p90=12.5, p99=20.0))
    assert figure_of(SCENARIOS["single-stream"], run, 1) == "p90 12.5 ms"
    assert figure_of(SCENARIOS["multi-stream"], run, 8) == "p99 20 ms"
    assert figure_of(SCENARIOS["offline"], run, 8) == "800 samples per second"
