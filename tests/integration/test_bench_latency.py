"""What the instrument says of servers whose latencies are known."""

import itertools
import re
from collections.abc import Iterator

import numpy as np
import pytest

from guepard.measure.load.generator import LoadGenerator
from guepard.measure.results import Latency, Run
from tests.services.bench_command import codes
from tests.services.known_behaviours import Alternate, Cycle, Lognormal, Sleep, Slow, Stall, Warming
from tests.services.known_servers import KnownServer
from tests.services.measured_runs import load_plan, measured, measured_at_once, percentile

NOISE_MS = 40.0
"""What other work on the machine may add to a latency; nothing takes anything away from it."""
PRECISION = 0.999
"""A histogram's values are right to a thousandth."""


def values(latency: Latency) -> list[float]:
    """Minimum, percentiles and maximum, in this order."""
    return [latency.min_ms, *(each.value_ms for each in latency.percentiles), latency.max_ms]


# a server that stalls


def test_a_stall_is_seen_and_a_closed_loop_hides_it() -> None:
    """A fifth of the requests are due in a stall of 300 ms, and wait for its end: q of all wait longer than
    300 ms (1 - q / 0.2)."""
    stall = Stall(every_s=1.5, for_s=0.3, ms=2.0)
    open_loop, closed_loop, few_connections = measured_at_once(
        (stall, {"rate": 200, "seconds": 3}),
        (stall, {"concurrency": 2, "seconds": 3}),
        (stall, {"rate": 200, "seconds": 3, "connections": 2}),
    )
    assert open_loop.latency.count == 600
    assert 285 * 0.97 <= percentile(open_loop, 99) <= 285 + NOISE_MS
    assert 225 * 0.95 <= percentile(open_loop, 95) <= 225 + NOISE_MS
    assert 150 * 0.9 <= percentile(open_loop, 90) <= 150 + NOISE_MS
    assert percentile(open_loop, 75) < NOISE_MS
    assert 295 <= open_loop.latency.max_ms <= 300 + 2 * NOISE_MS
    assert 30 * 0.9 <= open_loop.latency.mean_ms <= 30 + NOISE_MS / 2
    assert not codes(open_loop) & {"server-died", "overloaded", "errors"}, "a pause is neither the end nor an overload"

    # Two requests meet each stall, of hundreds.
    assert closed_loop.latency.count > 400
    assert percentile(closed_loop, 99) < 285 / 3
    assert closed_loop.latency.max_ms >= 290
    assert "closed-loop" in codes(closed_loop, "note")

    # What waits for a connection is not sent yet: only the latency from the intended time knows of it.
    service = few_connections.service.at(99)
    assert service is not None
    assert service.value_ms < 285 / 3
    assert 285 * 0.97 <= percentile(few_connections, 99) <= 285 + 2 * NOISE_MS
    assert few_connections.generator.blocked_share >= 0.15
    assert "connections-busy" in codes(few_connections, "warning")
    assert "generator-shortfall" not in codes(few_connections)


@pytest.mark.slow
def test_a_stall_of_one_second_in_five(generator: LoadGenerator) -> None:
    with KnownServer(Stall(every_s=5, for_s=1, ms=1.0)) as server:
        open_run = measured(generator, load_plan(server.port, rate=200, seconds=20))
        closed_run = measured(generator, load_plan(server.port, concurrency=2, seconds=20))
    assert 950 * 0.98 <= percentile(open_run, 99) <= 950 + NOISE_MS
    assert 500 * 0.95 <= percentile(open_run, 90) <= 500 + NOISE_MS
    assert 0.95 * 100 <= open_run.latency.mean_ms <= 100 + NOISE_MS
    assert percentile(closed_run, 99) < NOISE_MS
    assert closed_run.latency.max_ms >= 900


# a server whose times are drawn from a distribution


def test_percentiles_are_those_of_the_times_that_were_drawn() -> None:
    behaviour = Lognormal(median_ms=100, sigma=0.5, seed=7)
    run, constant = measured_at_once(
        (behaviour, {"rate": 400, "seconds": 2}), (Sleep(ms=100), {"rate": 100, "seconds": 1})
    )
    drawn = np.array([*itertools.islice(behaviour.times_ms(), 800)])
    assert run.latency.count == 800
    for percent in (50, 75, 90, 95, 99):
        known = float(np.percentile(drawn, percent, method="inverted_cdf"))
        assert known * PRECISION <= percentile(run, percent) <= known + NOISE_MS, percent
    assert drawn.mean() * PRECISION <= run.latency.mean_ms <= drawn.mean() + NOISE_MS
    median = run.latency.at(50)
    assert median is not None
    assert median.low_ms is not None
    assert median.high_ms is not None
    assert median.low_ms <= median.value_ms <= median.high_ms

    assert constant.latency.count == 100
    assert values(constant.latency) == sorted(values(constant.latency))
    assert constant.latency.min_ms >= 100 * PRECISION
    assert percentile(constant, 50) <= 100 + NOISE_MS / 2
    assert constant.latency.mean_ms <= 100 + NOISE_MS
    assert constant.latency.max_ms <= 100 + 3 * NOISE_MS


# few samples, and several processes


@pytest.fixture(scope="module")
def four_processes() -> Iterator[LoadGenerator]:
    with LoadGenerator(4) as generator:
        yield generator


def assert_cycle(run: Run, count: int) -> None:
    """1 to 100 ms, each `count` times: the p-th percentile is p ms."""
    assert run.latency.count == 100 * count
    assert values(run.latency) == sorted(values(run.latency))
    assert run.latency.min_ms >= 1 * PRECISION
    for percent in (50, 75, 90, 95, 99):
        assert percent * PRECISION <= percentile(run, percent) <= percent + NOISE_MS, percent
    for far in (99.9, 99.99):
        assert 100 * PRECISION <= percentile(run, far) <= 100 + 2 * NOISE_MS
    assert 50.5 * PRECISION <= run.latency.mean_ms <= 50.5 + NOISE_MS


def test_one_millisecond_more_for_each_of_a_hundred(generator: LoadGenerator) -> None:
    with KnownServer(Cycle(first_ms=1, last_ms=100)) as server:
        run = measured(generator, load_plan(server.port, rate=100, seconds=2, requests=100))
    assert_cycle(run, 1)
    assert not any(each.is_supported for each in run.latency.percentiles if each.percent >= 99)


def test_percentiles_of_several_processes_are_those_of_all_requests(four_processes: LoadGenerator) -> None:
    """Each process has other requests, and percentiles cannot be averaged (locustio/locust#777)."""
    with KnownServer(Cycle(first_ms=1, last_ms=100)) as server:
        run = measured(four_processes, load_plan(server.port, rate=400, seconds=2, requests=400))
    assert run.generator.processes == 4
    assert_cycle(run, 4)


def test_one_sample_is_every_percentile_and_supports_none(generator: LoadGenerator) -> None:
    with KnownServer(Sleep(ms=30)) as server:
        run = measured(generator, load_plan(server.port, rate=100, seconds=2, requests=1))
    assert (run.offered, run.succeeded, run.latency.count) == (1, 1, 1)
    low, *between, high = values(run.latency)
    assert 30 * PRECISION <= low == high
    assert all(value == pytest.approx(high, rel=0.001) for value in between)
    assert not any(each.is_supported for each in run.latency.percentiles)
    assert "unsupported-percentiles" in codes(run, "warning")


def test_two_samples_are_one_for_each_half(generator: LoadGenerator) -> None:
    with KnownServer(Cycle(first_ms=20, last_ms=21)) as server:
        run = measured(generator, load_plan(server.port, concurrency=1, seconds=2, requests=2))
    assert run.latency.count == 2
    assert percentile(run, 50) == pytest.approx(run.latency.min_ms, rel=0.001)
    for percent in (75, 99, 99.99):
        assert percentile(run, percent) == pytest.approx(run.latency.max_ms, rel=0.001)
    assert values(run.latency) == sorted(values(run.latency))


# rates and concurrency


def assert_littles_law(run: Run, concurrency: int) -> None:
    """Throughput times mean latency is the number of callers, as one of perf_analyzer's users found it was not
    (triton-inference-server/perf_analyzer#393)."""
    assert run.throughput.value * run.latency.mean_ms / 1_000 == pytest.approx(concurrency, rel=0.1)
    assert run.mean_in_flight == pytest.approx(concurrency, rel=0.1)


def test_few_long_requests_are_all_counted() -> None:
    """Within 2.9 s of a second each a third request begins after 2 s: it counts, and the run takes as long as it does.
    So the second of two that take a second each within 1.1 s."""
    second = Sleep(ms=1_000)
    one, two, five = measured_at_once(
        (second, {"concurrency": 1, "seconds": 2.9}),
        (second, {"concurrency": 2, "seconds": 1.1}),
        (Slow(ms=20), {"concurrency": 5, "seconds": 2}),
    )
    assert (one.offered, one.succeeded, one.latency.count) == (3, 3, 3)
    assert_littles_law(one, 1)
    assert (two.offered, two.succeeded) == (4, 4)
    assert_littles_law(two, 2)
    assert 42 <= five.throughput.value <= 52.5  # callers that wait for one another: half a request each too many
    assert percentile(five, 50) >= 100 * PRECISION
    assert_littles_law(five, 5)


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "requests"), [(5, 5), (10, 10)])
def test_long_requests_within_longer_runs(generator: LoadGenerator, seconds: float, requests: int) -> None:
    with KnownServer(Sleep(ms=1_000)) as server:
        run = measured(generator, load_plan(server.port, concurrency=1, seconds=seconds - 0.1))
    assert run.succeeded == requests
    assert_littles_law(run, 1)


# a server slower than what is offered


def test_a_server_slower_than_the_rate_is_overloaded() -> None:
    """100/s of 200/s: what is due at t is answered at 2 t."""
    slow = Slow(ms=10)
    run, blocked, at_ease = measured_at_once(
        (slow, {"rate": 200, "seconds": 1.5}),
        (slow, {"rate": 200, "seconds": 1.5, "connections": 4}),
        (slow, {"rate": 80, "seconds": 2}),
    )
    for each in (run, blocked):
        assert "overloaded" in codes(each)
        assert not each.is_valid
        assert 85 <= each.throughput.value <= 101
        assert each.offered_rate == pytest.approx(200, rel=0.02)
        assert 750 * 0.97 <= percentile(each, 50) <= 750 + 4 * NOISE_MS
        assert 1_500 * 0.97 <= each.latency.max_ms <= 1_500 + 4 * NOISE_MS
        medians = [piece.p50_ms for piece in each.slices if piece.p50_ms is not None]
        assert medians[-1] > medians[len(medians) // 2] > medians[0]

    assert run.generator.blocked_share == 0
    assert 120 <= run.slices[14].in_flight <= 180

    assert blocked.generator.blocked_share > 0.9
    assert blocked.slices[14].in_flight == 4
    service = blocked.service.at(50)
    assert service is not None
    assert 40 * 0.9 <= service.value_ms <= 40 + NOISE_MS
    assert "connections-busy" in codes(blocked, "warning")
    assert "generator-shortfall" not in codes(blocked), "what waits for a connection is not the generator's fault"

    assert "overloaded" not in codes(at_ease)
    assert at_ease.throughput.value == pytest.approx(80, rel=0.1)


# a server that changes


def test_a_server_that_changes_is_unsteady_and_one_that_warms_up_is_cut() -> None:
    """Changes such as windows are to show (triton-inference-server/client PR#114). That `guepard tune` picks no winner
    within the noise is to be shown where it is built."""
    load = {"rate": 100, "seconds": 5}
    alternating, warming, hasty = measured_at_once(
        (Alternate(period_s=1, fast_ms=20, slow_ms=200), load),
        (Warming(first_s=1, first_ms=500, ms=50), load),
        (Sleep(ms=20), {"rate": 100, "seconds": 0.8}),
        warm_up_s=None,
    )
    assert not alternating.steadiness.is_steady
    assert "unsteady" in codes(alternating)
    spread = re.search(r"p50 differs by ([\d,]+) % of its median between windows", alternating.steadiness.says)
    assert spread is not None, alternating.steadiness.says
    assert int(spread[1].replace(",", "")) > 200, "it is ten times as slow at times"

    assert 0.9 <= warming.window.start_s <= 1.6
    assert "cut" in warming.window.warm_up
    assert warming.offered == pytest.approx(100 * (5 - warming.window.start_s), abs=3)
    assert percentile(warming, 90) <= 50 + 2 * NOISE_MS

    assert hasty.window.start_s < 0.5
    assert "too short" in hasty.steadiness.says
    assert "unsteady" in codes(hasty)
