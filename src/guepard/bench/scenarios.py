"""Loads in the manner of MLPerf Inference: the same way of asking and the same figure, of a target of one's own.

They are no MLPerf results, and may not be called so: those need its load generator, its models and data, its accuracy
and its review. Latency counts from the scheduled time, as in all of guepard bench. In place of MLPerf's early stopping,
which lowers what a short run may claim, each percentile has its interval, and one without enough samples is grey.

Source: mlcommons/inference_policies, inference_rules.adoc, "Scenarios" (how queries come, 600 seconds, percentiles,
8 samples to a query of multi-stream, 24,576 samples of offline) and the table of queries per percentile; minimum query
counts of mlcommons/inference, loadgen/mlperf.conf.
"""

from typing import Literal

from msgspec import Struct

from guepard.measure.figures import percentile_text
from guepard.measure.results import Finding, Run

ScenarioName = Literal["single-stream", "multi-stream", "server", "offline"]

_MINIMUM_S = 600.0


class Scenario(Struct, frozen=True, kw_only=True):
    """What makes a load one of MLPerf's scenarios.

    concurrency: callers of the closed loop; 0 is an open loop of Poisson arrivals. rows: samples of one request, 0 for
    as many as were asked for. percent: of the latency that is its figure; None where that is throughput. minimum_count:
    requests that its own length has at least; of samples, where `counts_samples`.
    """

    name: ScenarioName
    concurrency: int
    rows: int
    percent: float | None
    minimum_s: float
    minimum_count: int
    counts_samples: bool
    figure: str


SCENARIOS: dict[str, Scenario] = {
    each.name: each
    for each in (
        Scenario(
            name="single-stream",
            concurrency=1,
            rows=0,
            percent=90.0,
            minimum_s=_MINIMUM_S,
            minimum_count=64,
            counts_samples=False,
            figure="the p90 latency of one request after the other",
        ),
        Scenario(
            name="multi-stream",
            concurrency=1,
            rows=8,
            percent=99.0,
            minimum_s=_MINIMUM_S,
            minimum_count=662,
            counts_samples=False,
            figure="the p99 latency of requests of 8 samples, one after the other",
        ),
        Scenario(
            name="server",
            concurrency=0,
            rows=0,
            percent=99.0,
            minimum_s=_MINIMUM_S,
            minimum_count=0,
            counts_samples=False,
            figure="the highest rate of Poisson arrivals that keeps a latency goal",
        ),
        Scenario(
            name="offline",
            concurrency=64,
            rows=0,
            percent=None,
            minimum_s=_MINIMUM_S,
            minimum_count=24_576,
            counts_samples=True,
            figure="the samples per second, with always enough of them waiting",
        ),
    )
}


def scenario_finding(scenario: Scenario, run: Run, rows: int) -> Finding:
    """A note for the report: what the figure is and, where the run was shorter than MLPerf's, by how much.

    `rows` is how many samples each request held.
    """
    measured_s = run.window.end_s - run.window.start_s
    count = run.succeeded * (rows if scenario.counts_samples else 1)
    short = []
    if measured_s < scenario.minimum_s:
        short.append(f"{measured_s:.0f} s of {scenario.minimum_s:.0f} s")
    if count < scenario.minimum_count:
        noun = "samples" if scenario.counts_samples else "requests"
        short.append(f"{count:,} of {scenario.minimum_count:,} {noun}")
    length = f"; not MLPerf's length, {' and '.join(short)}" if short else ""
    return Finding(
        code="scenario",
        severity="note",
        reason=f"in the manner of MLPerf's {scenario.name} scenario, {scenario.figure}: no MLPerf result{length}",
        remedy="for that length leave --duration and --requests out" if short else "do not call it an MLPerf result",
    )


def figure_of(scenario: Scenario, run: Run, rows: int) -> str:
    """The figure that the scenario is about, of a closed loop. `rows` is how many samples each request held."""
    if scenario.percent is None:
        return f"{run.throughput.value * rows:,.4g} samples per second"
    found = run.latency.at(scenario.percent)
    name = percentile_text(scenario.percent)
    return f"{name} unknown" if found is None else f"{name} {found.value_ms:.4g} ms"
