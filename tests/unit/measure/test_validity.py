"""When figures may be believed: every rule, on a run that breaks it and on its sound twin."""

import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from guepard.measure.evidence import Evidence
from guepard.measure.results import Finding, Latency, Run, ServerView, Slo, Steadiness, Window
from guepard.measure.validity import GENERATOR_CODES, blames_generator, find_all, judged
from tests.unit.measure.sample_runs import CLOSED, error_of, generator_of, latency_of, load_of, run_of, slices_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "bench-findings.md"
NOTHING: Latency = latency_of(0, p50=0.0)
UNREST = Steadiness(
    is_steady=False, throughput_spread=0.5, latency_spread=3.0, drift=0.1, says="throughput spread 50 % over 5 windows"
)
CACHE = ServerView(
    phases=(),
    unexplained_ms=None,
    statistics={},
    metrics={},
    cpu_us_per_request=None,
    batch_size=None,
    cache_hit_share=0.4,
    unavailable={},
)


def findings(run: Run, **circumstances: Any) -> dict[str, Finding]:
    evidence = Evidence(run=run, **{"same_machine": False, **circumstances})
    return {finding.code: finding for finding in find_all(evidence)}


def dying(**changes: Any) -> Run:
    """1,000/s until second 6, then refusals."""
    return run_of(
        slices=slices_of([1_000] * 10, [1_000] * 6 + [0] * 4),
        succeeded=6_000,
        failed=4_000,
        errors=(error_of(1, 4_000),),
        **changes,
    )


BROKEN: dict[str, tuple[Run, dict[str, Any]]] = {
    "send-lag": (run_of(generator=generator_of(send_lag=latency_of(p50=0.1, p99=2.5))), {}),
    "generator-shortfall": (run_of(sent_rate=970.0), {}),
    "generator-saturated": (run_of(load=CLOSED, generator=generator_of(cpu_share=0.97)), {}),
    "generator-starved": (
        run_of(generator=generator_of(runqueue_wait_share=0.2, send_lag=latency_of(p50=0.1, p99=1.5))),
        {},
    ),
    "self-test-slow": (run_of(generator=generator_of(self_test_rate=1_900.0)), {}),
    "no-success": (run_of(succeeded=0, failed=10_000, errors=(error_of(404, 10_000),), latency=NOTHING), {}),
    "errors": (run_of(succeeded=9_800, failed=200, errors=(error_of(429, 150), error_of(500, 50))), {}),
    "server-died": (dying(), {}),
    "overloaded": (run_of(slices=slices_of([1_000] * 10, [800] * 10)), {}),
    "unsteady": (run_of(steadiness=UNREST), {}),
    "too-few-samples": (run_of(latency=latency_of(900)), {"slo": Slo(percent=99, limit_ms=50)}),
    "unsupported-percentiles": (run_of(latency=latency_of(900)), {}),
    "open-interval": (run_of(latency=latency_of(10_000, effective=200)), {}),
    "same-machine": (run_of(), {"same_machine": True}),
    "repeated-inputs": (run_of(repeat_share=0.9), {}),
    "connections-busy": (run_of(generator=generator_of(blocked_share=0.1)), {}),
    "long-warm-up": (run_of(window=Window(start_s=4.0, end_s=10.0, warm_up="auto")), {}),
    "closed-loop": (run_of(load=CLOSED), {}),
    "redirects": (run_of(succeeded=9_990, failed=10, errors=(error_of(301, 10),)), {}),
    "no-keep-alive": (run_of(generator=generator_of(connections_opened=10_000)), {}),
}


@pytest.mark.parametrize("code", BROKEN)
def test_each_rule_finds_what_it_is_for(code: str) -> None:
    run, circumstances = BROKEN[code]
    found = findings(run, **circumstances)
    assert code in found
    assert re.search(r"\d", found[code].reason) or code == "same-machine"
    assert found[code].remedy


def test_a_sound_run_has_no_findings() -> None:
    run = judged(Evidence(run=run_of(), same_machine=False, slo=Slo(percent=99, limit_ms=50)))
    assert run.findings == ()
    assert run.is_valid


@pytest.mark.parametrize(
    ("run", "absent"),
    [
        (run_of(generator=generator_of(send_lag=latency_of(p50=0.1, p99=1.9))), "send-lag"),
        (run_of(sent_rate=991.0), "generator-shortfall"),
        (run_of(sent_rate=600.0, generator=generator_of(blocked_share=0.4)), "generator-shortfall"),
        (run_of(generator=generator_of(cpu_share=1.0)), "generator-saturated"),
        (run_of(generator=generator_of(runqueue_wait_share=0.2)), "generator-starved"),
        (run_of(generator=generator_of(runqueue_wait_share=None)), "generator-starved"),
        (run_of(generator=generator_of(self_test_rate=2_100.0)), "self-test-slow"),
        (run_of(succeeded=9_901, failed=99, errors=(error_of(500, 99),)), "errors"),
        (run_of(repeat_share=0.9, server=msgspec.structs.replace(CACHE, cache_hit_share=0.0)), "repeated-inputs"),
    ],
)
def test_what_is_within_the_limit_is_not_found(run: Run, absent: str) -> None:
    assert absent not in findings(run)


def test_the_limit_of_the_send_lag_follows_the_latency() -> None:
    late = generator_of(send_lag=latency_of(p50=0.1, p99=1.5))
    assert "send-lag" not in findings(run_of(generator=late))
    found = findings(run_of(generator=late, latency=latency_of(p50=4.0, p99=9.0)))["send-lag"]
    assert "1.50 ms" in found.reason.replace("1.5 ms", "1.50 ms")
    assert "1 ms is the most" in found.reason


def test_a_starved_generator_is_found_though_its_own_latencies_make_its_lag_look_little() -> None:
    """Answers that are not read in time keep every connection busy and make latencies long."""
    slow = latency_of(p50=600.0, p99=900.0)
    starved = generator_of(runqueue_wait_share=0.3, send_lag=latency_of(p50=4.0, p99=14.0))
    assert "generator-starved" not in findings(run_of(generator=starved, latency=slow))
    blocked = msgspec.structs.replace(starved, blocked_share=0.6)
    assert "generator-starved" in findings(run_of(generator=blocked, latency=slow))
    at_leisure = msgspec.structs.replace(blocked, runqueue_wait_share=0.05)
    assert "generator-starved" not in findings(run_of(generator=at_leisure, latency=slow))


def test_the_reply_to_death_names_the_second() -> None:
    found = findings(dying(steadiness=UNREST))
    assert found["server-died"].reason.startswith("after second 6 ")
    assert "errors" in found
    assert "unsteady" not in found


def test_a_hang_in_a_closed_loop_is_a_death() -> None:
    run = run_of(load=CLOSED, slices=slices_of([1_016] + [1_000] * 3 + [0] * 6, [1_000] * 4 + [0] * 6))
    assert findings(run)["server-died"].reason.startswith("after second 4 ")


def test_a_pause_at_the_end_is_no_death_and_no_overload() -> None:
    slices = list(slices_of([500] * 20, [500] * 18 + [0] * 2, seconds=0.5))
    slices[-2:] = [msgspec.structs.replace(piece, p50_ms=700.0) for piece in slices[-2:]]
    assert not findings(run_of(slices=tuple(slices)))


def test_quiet_between_bursts_is_no_death() -> None:
    assert "server-died" not in findings(run_of(slices=slices_of([5_000, 0, 0, 0], [5_000, 0, 0, 0])))


def test_a_pipe_that_fills_at_first_is_no_overload() -> None:
    assert not findings(run_of(slices=slices_of([1_000] * 10, [0, 0] + [1_000] * 8)))


def test_errors_count_no_slower_than_answers_as_overload() -> None:
    found = findings(run_of(slices=slices_of([1_000] * 10, [700] * 10, failed=300), succeeded=7_000, failed=3_000))
    assert set(found) == {"errors"}


def test_a_queue_at_a_tenth_over_its_capacity_is_found_in_most_runs_and_one_below_it_hardly_ever() -> None:
    """Poisson arrivals and exponential service, 10 s at 1,000/s, ends counted from the sums of service times."""
    generator = np.random.default_rng(1)
    seen = {0.9: 0, 1.1: 0}
    for utilisation in seen:
        for _ in range(100):
            arrivals = np.cumsum(generator.exponential(1e-3, 10_500))
            services = generator.exponential(utilisation * 1e-3, 10_500)
            total = np.cumsum(services)
            ends = total + np.maximum.accumulate(arrivals - (total - services))
            edges = np.linspace(0, 10, 41)
            due, done = np.histogram(arrivals, edges)[0], np.histogram(ends, edges)[0]
            slices = slices_of(due.tolist(), done.tolist(), seconds=0.25)
            seen[utilisation] += "overloaded" in findings(run_of(slices=slices))
    assert seen[0.9] <= 1
    assert seen[1.1] >= 95


def test_too_few_samples_says_how_long_to_measure() -> None:
    found = findings(run_of(latency=latency_of(500)), slo=Slo(percent=99, limit_ms=50))["too-few-samples"]
    assert "--duration 20s" in found.remedy
    assert found.severity == "invalid"


def test_the_asked_percentile_is_not_warned_of_twice() -> None:
    found = findings(run_of(latency=latency_of(500, p50=1.0, p99=2.0, p99_9=3.0)), slo=Slo(percent=99, limit_ms=50))
    assert "p99.9" in found["unsupported-percentiles"].reason
    assert "p99," not in found["unsupported-percentiles"].reason


def test_the_cache_is_named_where_the_server_tells() -> None:
    assert "answered 40 %" in findings(run_of(repeat_share=0.9, server=CACHE))["repeated-inputs"].reason
    assert "may have answered" in findings(run_of(repeat_share=0.9))["repeated-inputs"].reason


def test_voiding_findings_come_first() -> None:
    run = judged(Evidence(run=run_of(sent_rate=900.0, repeat_share=1.0, load=load_of(rate=1_000.0)), same_machine=True))
    assert [finding.severity for finding in run.findings] == ["invalid", "warning", "warning"]
    assert not run.is_valid


@pytest.mark.parametrize("code", [code for code, (run, _) in BROKEN.items()])
def test_only_the_generators_own_findings_blame_it(code: str) -> None:
    run, circumstances = BROKEN[code]
    assert blames_generator(judged(Evidence(run=run, **{"same_machine": False, **circumstances}))) == (
        code in GENERATOR_CODES
    )


def test_the_page_lists_every_code_with_its_severity() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE)
    severities = {code: findings(run, **circumstances)[code].severity for code, (run, circumstances) in BROKEN.items()}
    # What the question itself adds to a run that is judged: guepard.bench.scenarios.
    severities["scenario"] = "note"
    assert dict(rows) == severities
    assert len(rows) == len(severities)


def test_every_code_in_the_rules_has_a_run_that_breaks_it() -> None:
    folder = Path(__file__).parents[3] / "src" / "guepard" / "measure"
    sources = [folder / f"{name}.py" for name in ("server_rules", "generator_rules", "caveats")]
    written = {code for source in sources for code in re.findall(r'code="([a-z-]+)"', source.read_text())}
    assert written == set(BROKEN)
