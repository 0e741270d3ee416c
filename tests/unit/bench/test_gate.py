"""Is a result worse than an earlier one?"""

from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

from guepard.bench.gate import hold_gate
from guepard.bench.junit import to_junit
from guepard.bench.regression import worsened
from guepard.core.errors import ConfigurationError
from guepard.measure.results import Comparison, Document, Edge, Estimate, Finding, Gate, Run, Slo
from tests.services.result_documents import a_document
from tests.unit.measure.sample_runs import CLOSED, error_of, latency_of, load_of, run_of

SLO = Slo(percent=99, limit_ms=50)
BOTH = (run_of(), run_of(target=1))
INVALID = Finding(code="send-lag", severity="invalid", reason="requests left late", remedy="add --processes")


def document_of(run: Run | None = None, **changes: Any) -> Document:
    return msgspec.structs.replace(a_document(run or run_of()), **changes)


def gates_of(document: Document, baseline: Document, limit: float = 0.1) -> dict[str, Gate]:
    return {gate.name: gate for gate in hold_gate(document, baseline, limit)}


def with_p99(value: float, *, reach: float = 0.02, count: int = 10_000) -> Document:
    run = run_of(latency=latency_of(count, p50=40.0, p99=value))
    percentiles = tuple(
        msgspec.structs.replace(each, low_ms=each.value_ms * (1 - reach), high_ms=each.value_ms * (1 + reach))
        for each in run.latency.percentiles
    )
    return document_of(
        msgspec.structs.replace(run, latency=msgspec.structs.replace(run.latency, percentiles=percentiles))
    )


def edge_of(rate: float | None) -> Edge:
    estimate = None if rate is None else Estimate(value=rate, low=rate * 0.97, high=rate * 1.03)
    return Edge(slo=SLO, rate=estimate, lowest_failing=None, confirmed=True, says="an answer")


def comparison_of(metric: str, value: float) -> Comparison:
    return Comparison(
        metric=metric,
        verdict="cannot tell",
        difference=Estimate(value=value, low=value - 0.02, high=value + 0.02),
        minimum_detectable=0.02,
        blocks=10,
        says="",
    )


PAYLOADS = document_of().payloads


def test_the_same_passes() -> None:
    gates = gates_of(document_of(), document_of())
    assert set(gates) == {"p50 latency, ms", "p99 latency, ms", "error share"}
    assert all(gate.passed for gate in gates.values())
    assert gates["p99 latency, ms"].limit == pytest.approx(88)


@pytest.mark.parametrize(
    ("now", "reach", "passed", "begins"),
    [
        (120.0, 0.02, False, "worse: 120 ms, was 80 ms, which is +50.0 % ("),
        (90.0, 0.02, True, "cannot tell: 90 ms, was 80 ms; worse by "),
        (90.0, 0.0, False, "worse: "),
        (120.0, 0.4, True, "cannot tell: "),
        (82.0, 0.02, True, "within the limit: "),
        (60.0, 0.02, True, "better: 60 ms, was 80 ms ("),
    ],
)
def test_a_latency_fails_only_where_it_is_certainly_worse(now: float, reach: float, passed: bool, begins: str) -> None:
    gate = gates_of(with_p99(now, reach=reach), with_p99(80.0, reach=reach))["p99 latency, ms"]
    assert gate.passed is passed
    assert gate.says.startswith(begins)


def test_an_unchanged_server_hardly_ever_fails_and_a_slower_one_does() -> None:
    """p99s of two runs that differ by chance alone, then by 30 %, with the intervals that they would have."""
    random = np.random.default_rng(7)
    failed = {1.0: 0, 1.3: 0}
    for factor in failed:
        for _ in range(500):
            noise = np.exp(random.normal(0, 0.03, 2))
            now = with_p99(80 * factor * noise[0], reach=0.03 * 1.96)
            gate = gates_of(now, with_p99(80 * noise[1], reach=0.03 * 1.96), limit=0.05)["p99 latency, ms"]
            failed[factor] += not gate.passed
    assert failed[1.0] <= 5
    assert failed[1.3] >= 490


def test_the_interval_of_a_ratio_holds_the_truth() -> None:
    random = np.random.default_rng(8)
    held = 0
    for _ in range(1_000):
        one, other = np.exp(random.normal(0, (0.02, 0.05)))
        ratio = worsened(
            Estimate(value=one, low=one * np.exp(-0.0392), high=one * np.exp(0.0392)),
            Estimate(value=other, low=other * np.exp(-0.098), high=other * np.exp(0.098)),
        )
        assert ratio.low is not None
        assert ratio.high is not None
        held += ratio.low <= 0 <= ratio.high
    assert 930 <= held <= 970


def test_a_percentile_without_enough_samples_cannot_fail() -> None:
    gate = gates_of(with_p99(500.0, count=500), with_p99(80.0))["p99 latency, ms"]
    assert gate.passed
    assert gate.says.startswith("cannot tell: too few samples for p99")


def test_the_goals_percentile_is_the_one_that_counts() -> None:
    run = run_of(latency=latency_of(50_000, p50=40.0, p99=80.0, p99_9=120.0))
    slo = Slo(percent=99.9, limit_ms=200)
    gates = gates_of(document_of(run, slo=slo), document_of(run, slo=slo))
    assert set(gates) == {"p50 latency, ms", "p99.9 latency, ms", "error share"}


def test_throughput_counts_in_a_closed_loop() -> None:
    def at(rate: float) -> Document:
        return document_of(run_of(load=CLOSED, throughput=Estimate(value=rate, low=rate * 0.99, high=rate * 1.01)))

    assert not gates_of(at(800), at(1_000))["throughput, 1/s"].passed
    assert gates_of(at(980), at(1_000))["throughput, 1/s"].passed
    assert gates_of(at(1_200), at(1_000))["throughput, 1/s"].says.startswith("better: ")


def test_a_search_is_held_to_its_rate() -> None:
    def at(rate: float | None) -> Document:
        return document_of(edge=edge_of(rate))

    assert not gates_of(at(800), at(1_000))["highest rate, 1/s"].passed
    assert gates_of(at(1_000), at(990))["highest rate, 1/s"].passed
    gone = gates_of(at(None), at(1_000))["highest rate, 1/s"]
    assert not gone.passed
    assert "no rate keeps the goal any more" in gone.says


def test_errors_that_rise_fail() -> None:
    def failing(count: int) -> Document:
        return document_of(run_of(succeeded=10_000 - count, failed=count, errors=(error_of(500, count),)))

    assert not gates_of(failing(90), failing(0))["error share"].passed
    assert gates_of(failing(0), failing(0))["error share"].passed
    assert gates_of(failing(90), failing(90))["error share"].passed
    few = run_of(succeeded=100, failed=1)
    assert gates_of(document_of(few), failing(0))["error share"].says.startswith("cannot tell")


def test_comparisons_are_ratios() -> None:
    def at(p99: float, throughput: float) -> Document:
        return document_of(runs=BOTH, comparisons=(comparison_of("p99", p99), comparison_of("throughput", throughput)))

    gates = gates_of(at(0.5, -0.3), at(0.0, 0.0))
    assert not gates["p99 of B as a share of A"].passed
    assert not gates["throughput of B as a share of A"].passed
    gates = gates_of(at(-0.2, 0.2), at(0.0, 0.0))
    assert all(gate.says.startswith(("better", "within")) for gate in gates.values())


def test_without_a_baseline_b_is_held_to_a() -> None:
    """As `--compare URL --gate-limit 10%` does, so that no machine has to be the same as last week's."""
    runs = (run_of(), run_of(target=1, succeeded=9_900, failed=100, errors=(error_of(500, 100),)))
    document = document_of(runs=runs, comparisons=(comparison_of("p99", 0.2), comparison_of("throughput", 0.0)))
    gates = {gate.name: gate for gate in hold_gate(document, None, 0.1)}
    assert not gates["p99 of B as a share of A"].passed
    assert gates["p99 of B as a share of A"].limit == pytest.approx(1.1)
    assert gates["throughput of B as a share of A"].passed
    assert not gates["error share"].passed
    assert gates["error share"].baseline == 0


def test_on_another_machine_only_ratios_count() -> None:
    slower = with_p99(500.0)
    other = msgspec.structs.replace(slower.machine, cpu="Another CPU")
    gate = gates_of(msgspec.structs.replace(slower, machine=other), with_p99(80.0))["p99 latency, ms"]
    assert gate.passed
    assert "on another machine (AMD EPYC, 8 cores)" in gate.says
    worse = document_of(runs=BOTH, machine=other, comparisons=(comparison_of("p99", 0.5),))
    same = document_of(runs=BOTH, comparisons=(comparison_of("p99", 0.0),))
    assert not gates_of(worse, same)["p99 of B as a share of A"].passed


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"runs": (run_of(is_valid=False, findings=(INVALID,)),)}, "INVALID: requests left late"),
        ({"interrupted": True}, "it was interrupted"),
        ({"runs": ()}, "NO RESULT"),
    ],
)
def test_what_may_not_be_believed_fails_on_either_side(change: dict[str, Any], why: str) -> None:
    broken = msgspec.structs.replace(document_of(), **change)
    for pair, name in (((broken, document_of()), "result is valid"), ((document_of(), broken), "baseline is valid")):
        gates = gates_of(*pair)
        assert set(gates) == {name}
        assert not gates[name].passed
        assert why in gates[name].says


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        (
            {"payloads": msgspec.structs.replace(PAYLOADS, sha256="f" * 64)},
            "the hash of the payloads is ffffffffffff, ",
        ),
        ({"payloads": msgspec.structs.replace(PAYLOADS, order="cycle")}, "the order of inputs is cycle, "),
        ({"edge": edge_of(5)}, "the question is --find-max, in the baseline one load"),
        ({"comparisons": (comparison_of("p99", 0.1),)}, "the question is --compare, "),
        ({"scenario": "offline"}, "the scenario is offline, in the baseline none"),
        ({"slo": SLO}, "the goal is p99=50ms, in the baseline none"),
        ({"targets": (msgspec.structs.replace(document_of().targets[0], protocol="http"),)}, "the protocol is http, "),
        (
            {"runs": (run_of(load=load_of(rate=900.0)),)},
            "the load is 900/s, in the baseline 1,000/s; write --rate 1000",
        ),
        ({"runs": (run_of(load=load_of(arrivals="constant")),)}, "the load is constant, in the baseline poisson"),
        ({"runs": (run_of(load=CLOSED),)}, "the load is a closed loop, in the baseline an open loop"),
    ],
)
def test_what_did_not_measure_the_same_is_refused(changes: dict[str, Any], fragment: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        hold_gate(document_of(**{"run": None, **changes}), document_of(), 0.1)
    assert str(caught.value).startswith("--gate: not comparable: ")
    assert fragment in str(caught.value)


def test_a_scenario_is_the_same_whatever_it_came_to() -> None:
    now, before = (document_of(scenario=f"single-stream: p90 {value} ms") for value in (12, 14))
    assert all(gate.passed for gate in hold_gate(now, before, 0.1))


def test_another_number_of_callers_is_refused() -> None:
    more = document_of(run_of(load=msgspec.structs.replace(CLOSED, concurrency=32)))
    with pytest.raises(ConfigurationError, match="32 callers, in the baseline 16; write --concurrency 16"):
        hold_gate(more, document_of(run_of(load=CLOSED)), 0.1)


def test_junit_can_be_read_by_what_reads_xml() -> None:
    gates = (
        *hold_gate(with_p99(120.0), with_p99(80.0), 0.1),
        Gate(name='a "name" <&>', baseline=1, measured=2, limit=1, passed=False, says="bad & <worse>\x00\x1b[2J"),
    )
    root = ElementTree.fromstring(to_junit(gates, 12.5))
    assert root.attrib["tests"] == "4"
    assert root.attrib["failures"] == "2"
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    assert set(cases) == {"p50 latency, ms", "p99 latency, ms", "error share", 'a "name" <&>'}
    failure = cases["p99 latency, ms"].find("failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("worse: 120 ms, was 80 ms")
    assert cases["p50 latency, ms"].find("failure") is None
    assert "within the limit" in str(cases["p50 latency, ms"].findtext("system-out"))
