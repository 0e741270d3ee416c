"""What records of a run come to: rates over the time that was under load, whatever its end looked like."""

from typing import Any

import numpy as np
import pytest

from guepard.measure.analysis import analyse
from guepard.measure.evidence import Evidence
from guepard.measure.load.outcomes import End
from guepard.measure.load.plan import Arrivals, Endpoint, LoadPlan, Payload
from guepard.measure.load.records import COLUMNS, Records
from guepard.measure.observation import Observation
from guepard.measure.results import Run
from guepard.measure.validity import find_all

SECOND = 1_000_000_000
START_NS = 7 * SECOND


def plan_of(**changes: Any) -> LoadPlan:
    values: dict[str, Any] = {
        "endpoint": Endpoint(protocol="http", host="127.0.0.1", port=1),
        "payloads": (Payload(data=b""),),
        "duration_ns": 10 * SECOND,
    }
    return LoadPlan(**(values | changes))


def records_of(due_s: np.ndarray[Any, Any], latency_s: np.ndarray[Any, Any], outcome: Any = 200) -> Records:
    """All sent when they were due."""
    due = START_NS + np.round(due_s * SECOND).astype(np.int64)
    done = due + np.round(latency_s * SECOND).astype(np.int64)
    columns = dict.fromkeys(COLUMNS, np.zeros(len(due), np.int64))
    columns |= {"intended_ns": due, "sent_ns": due, "first_ns": done, "done_ns": done}
    columns["outcome"] = np.broadcast_to(np.asarray(outcome, np.int64), due.shape)
    return Records(**columns)


def closed_loop(latencies: list[np.ndarray[Any, Any]], duration_s: float = 10.0) -> tuple[np.ndarray[Any, Any], ...]:
    """When callers that wait send, and how long they wait: each its own latencies, one after the other."""
    due, waited = [], []
    for each in latencies:
        begins = np.concatenate([[0.0], each.cumsum()[:-1]])
        is_sent = begins < duration_s
        due.append(begins[is_sent])
        waited.append(each[is_sent])
    return np.concatenate(due), np.concatenate(waited)


def analysed(plan: LoadPlan, *parts: Records) -> Run:
    observation = Observation()
    observation.begin(START_NS)
    for part in parts:
        observation.add_records(part)
    return analyse(
        plan, observation, (), name="run", target=0, started_s=0.0, slo=None, warm_up_s=0.0, self_test_rate=None
    )


def codes(run: Run) -> set[str]:
    return {
        finding.code for finding in find_all(Evidence(run=run, same_machine=False)) if finding.severity == "invalid"
    }


def latencies_of(callers: int, mean_s: float, seed: int = 1) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(seed)
    return [random.uniform(0.5 * mean_s, 1.5 * mean_s, round(20 / mean_s)) for _ in range(callers)]


def test_one_request_that_hangs_at_the_end_of_a_closed_loop_says_nothing_of_the_others() -> None:
    due, waited = closed_loop(latencies_of(16, 0.05))
    well = records_of(due, waited)
    # The last one that was sent hangs, until it is given up after 30 s.
    last = due.argmax()
    waited[last] = 30.0
    outcome = np.full(len(due), 200)
    outcome[last] = End.TIMED_OUT
    plan = plan_of(concurrency=16)
    expected, found = analysed(plan, well), analysed(plan, records_of(due, waited, outcome))
    assert expected.throughput.value == pytest.approx(16 / 0.05, rel=0.05)
    assert found.throughput.value == pytest.approx(expected.throughput.value, rel=0.02)
    assert found.mean_in_flight == pytest.approx(16, rel=0.02)
    assert found.throughput.low is not None
    assert found.throughput.low > 0.5 * expected.throughput.value
    assert not codes(found) & {"server-died", "unsteady"}


def test_callers_that_wait_for_one_another_get_no_more_than_the_server_can() -> None:
    """50 a second, one by one, whoever asks."""
    done = np.arange(1, 1 + 105) / 50
    due = np.concatenate([np.zeros(5), done[:-5]])
    run = analysed(plan_of(concurrency=5, duration_ns=2 * SECOND), records_of(due, done - due))
    assert run.succeeded == 105
    assert run.throughput.value == pytest.approx(50, rel=0.005)


@pytest.mark.parametrize("callers", [1, 3, 64])
@pytest.mark.parametrize("mean_s", [0.9, 0.3])
def test_littles_law_holds_for_callers_that_stop_one_by_one(callers: int, mean_s: float) -> None:
    run = analysed(plan_of(concurrency=callers), records_of(*closed_loop(latencies_of(callers, mean_s))))
    assert run.throughput.value * run.latency.mean_ms / 1_000 == pytest.approx(callers, rel=0.03)
    assert run.mean_in_flight == pytest.approx(callers, rel=0.02)
    assert run.throughput.value == pytest.approx(callers / mean_s, rel=0.15)


def test_all_callers_of_a_server_that_hangs_are_told_as_its_death() -> None:
    due, waited = closed_loop(latencies_of(8, 0.05), duration_s=4.0)
    is_hanging = due + waited > 4.0
    waited[is_hanging] = 30.0
    run = analysed(plan_of(concurrency=8), records_of(due, waited, np.where(is_hanging, End.TIMED_OUT, 200)))
    assert "server-died" in codes(run)


@pytest.mark.parametrize("last_s", [0.43, 1.01, 1.0999])
def test_an_open_loop_that_ends_within_a_slice_has_the_rate_that_it_had(last_s: float) -> None:
    due = np.arange(0, last_s + 1e-9, 0.01)
    plan = plan_of(arrivals=Arrivals(kind="constant", rate=100.0), requests=len(due))
    run = analysed(plan, records_of(due, np.full(len(due), 0.001)))
    assert run.offered_rate == pytest.approx(100, rel=0.001)
    assert run.sent_rate == pytest.approx(100, rel=0.001)
    assert run.throughput.value == pytest.approx(100, rel=0.03)


def test_answers_that_come_after_the_last_request_was_due_are_successes_all_the_same() -> None:
    due = np.arange(5) / 10
    plan = plan_of(arrivals=Arrivals(kind="constant", rate=10.0), requests=5)
    run = analysed(plan, records_of(due, np.full(5, 1.0)))
    assert (run.succeeded, run.latency.count) == (0, 5)
    assert "no-success" not in codes(run)


def test_a_run_without_a_single_request_is_told_so() -> None:
    for plan in (plan_of(concurrency=4), plan_of(arrivals=Arrivals(kind="poisson", rate=10.0))):
        run = analysed(plan)
        assert (run.offered, run.succeeded, run.throughput.value, run.mean_in_flight) == (0, 0, 0.0, 0.0)
        assert "no-success" in codes(run)


def test_a_trace_of_one_moment_has_no_endless_rate() -> None:
    assert Arrivals(kind="trace", times_ns=(0, 0)).mean_rate(SECOND) == 2.0
