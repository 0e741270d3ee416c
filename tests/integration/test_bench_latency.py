"""What the instrument says of servers whose latencies are known."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from guepard.measure.load.generator import LoadGenerator
from guepard.measure.results import Latency, Run
from tests.services.bench_command import codes
from tests.services.known_behaviours import Cycle, Lognormal, Sleep, Slow, Stall
from tests.services.known_servers import KnownServer
from tests.services.measured_runs import load_plan, measured, percentile

NOISE_MS = 40.0
"""What other work on the machine may add to a latency; nothing takes anything away from it."""
PRECISION = 0.999
"""A histogram's values are right to a thousandth."""

STALL = Stall(every_s=1.5, for_s=0.3, ms=1.0)


def values(latency: Latency) -> list[float]:
    """Minimum, percentiles and maximum, in this order."""
    return [latency.min_ms, *(each.value_ms for each in latency.percentiles), latency.max_ms]


# a server that stalls


def test_a_stall_is_seen_by_those_who_wait_for_it(generator: LoadGenerator) -> None:
    """A fifth of the requests are due in a stall of 300 ms, and wait for its end: q of all wait longer than
    300 ms (1 - q / 0.2)."""
    with KnownServer(STALL) as server:
        run = measured(generator, load_plan(server.port, rate=200, seconds=3))
    assert run.latency.count == 600
    assert 285 * 0.97 <= percentile(run, 99) <= 285 + NOISE_MS
    assert 225 * 0.95 <= percentile(run, 95) <= 225 + NOISE_MS
    assert 150 * 0.9 <= percentile(run, 90) <= 150 + NOISE_MS
    assert percentile(run, 75) < NOISE_MS
    assert 295 <= run.latency.max_ms <= 300 + 2 * NOISE_MS
    assert 30 * 0.9 <= run.latency.mean_ms <= 30 + NOISE_MS / 2
    # A pause is neither the end nor an overload.
    assert not codes(run) & {"server-died", "overloaded", "errors"}


def test_a_closed_loop_hides_a_stall_and_says_that_it_may(generator: LoadGenerator) -> None:
    with KnownServer(STALL) as server:
        run = measured(generator, load_plan(server.port, concurrency=2, seconds=3))
    # Two requests meet each stall, of some thousand.
    assert run.latency.count > 400
    assert percentile(run, 99) < 285 / 3
    assert run.latency.max_ms >= 290
    assert "closed-loop" in codes(run, "note")


def test_few_connections_hide_a_stall_from_the_service_time_alone(generator: LoadGenerator) -> None:
    """What waits for a connection is not sent yet: only the latency from the intended time knows of it."""
    with KnownServer(STALL) as server:
        run = measured(generator, load_plan(server.port, rate=200, seconds=3, connections=2))
    service = run.service.at(99)
    assert service is not None
    assert service.value_ms < 285 / 3
    assert 285 * 0.97 <= percentile(run, 99) <= 285 + 2 * NOISE_MS
    assert run.generator.blocked_share >= 0.15
    assert "connections-busy" in codes(run, "warning")
    assert "generator-shortfall" not in codes(run)


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


def test_percentiles_are_those_of_the_times_that_were_drawn(generator: LoadGenerator) -> None:
    behaviour = Lognormal(median_ms=100, sigma=0.5, seed=7)
    with KnownServer(behaviour) as server:
        run = measured(generator, load_plan(server.port, rate=400, seconds=2))
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


def test_a_constant_time_is_every_percentile(generator: LoadGenerator) -> None:
    with KnownServer(Sleep(ms=100)) as server:
        run = measured(generator, load_plan(server.port, rate=100, seconds=1))
    assert run.latency.count == 100
    assert values(run.latency) == sorted(values(run.latency))
    assert run.latency.min_ms >= 100 * PRECISION
    assert run.latency.max_ms <= 100 + 2 * NOISE_MS
    assert percentile(run, 50) <= 100 + NOISE_MS / 2
    assert run.latency.mean_ms <= 100 + NOISE_MS


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
    for percent in (99.9, 99.99):
        assert 100 * PRECISION <= percentile(run, percent) <= 100 + 2 * NOISE_MS
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


def test_one_caller_of_a_second_each_within_2900_ms(generator: LoadGenerator) -> None:
    """The third request begins after 2 s, so it counts, and the run takes as long as it does."""
    with KnownServer(Sleep(ms=1_000)) as server:
        run = measured(generator, load_plan(server.port, concurrency=1, seconds=2.9))
    assert (run.offered, run.succeeded, run.latency.count) == (3, 3, 3)
    assert_littles_law(run, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "requests"), [(5, 5), (10, 10)])
def test_one_caller_of_a_second_each_for_longer(generator: LoadGenerator, seconds: float, requests: int) -> None:
    with KnownServer(Sleep(ms=1_000)) as server:
        run = measured(generator, load_plan(server.port, concurrency=1, seconds=seconds - 0.1))
    assert run.succeeded == requests
    assert_littles_law(run, 1)


def test_several_callers_share_what_the_server_can_do(generator: LoadGenerator) -> None:
    with KnownServer(Slow(ms=10)) as server:
        run = measured(generator, load_plan(server.port, concurrency=5, seconds=1.5))
    assert 80 <= run.throughput.value <= 101
    assert percentile(run, 50) >= 50 * PRECISION
    assert_littles_law(run, 5)


# a server slower than what is offered


def assert_overloaded(run: Run) -> None:
    """100/s of 200/s: what is due at t is answered at 2 t."""
    assert "overloaded" in codes(run)
    assert not run.is_valid
    assert 85 <= run.throughput.value <= 101
    assert run.offered_rate == pytest.approx(200, rel=0.02)
    assert 750 * 0.97 <= percentile(run, 50) <= 750 + 4 * NOISE_MS
    assert 1_500 * 0.97 <= run.latency.max_ms <= 1_500 + 4 * NOISE_MS
    medians = [piece.p50_ms for piece in run.slices if piece.p50_ms is not None]
    assert medians[-1] > medians[len(medians) // 2] > medians[0]


def test_a_server_slower_than_the_rate_is_overloaded(generator: LoadGenerator) -> None:
    with KnownServer(Slow(ms=10)) as server:
        run = measured(generator, load_plan(server.port, rate=200, seconds=1.5))
    assert_overloaded(run)
    assert run.generator.blocked_share == 0
    assert 100 <= run.slices[14].in_flight <= 200


def test_a_server_slower_than_the_rate_blocks_few_connections(generator: LoadGenerator) -> None:
    with KnownServer(Slow(ms=10)) as server:
        run = measured(generator, load_plan(server.port, rate=200, seconds=1.5, connections=4))
    assert_overloaded(run)
    assert run.generator.blocked_share > 0.9
    service = run.service.at(50)
    assert service is not None
    assert 40 * 0.9 <= service.value_ms <= 40 + NOISE_MS
    assert "connections-busy" in codes(run, "warning")
    assert "generator-shortfall" not in codes(run), "what waits for a connection is not the generator's fault"


def test_a_server_that_keeps_up_is_not_overloaded(generator: LoadGenerator) -> None:
    with KnownServer(Slow(ms=10)) as server:
        run = measured(generator, load_plan(server.port, rate=80, seconds=1.5))
    assert "overloaded" not in codes(run)
    assert run.throughput.value == pytest.approx(80, rel=0.1)
