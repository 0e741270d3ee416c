"""What the instrument says of servers that fail, and of generators that cannot keep up."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

from guepard.bench.targets.openai_requests import reply_rule
from guepard.measure.load.generator import LoadGenerator
from guepard.measure.load.null_server import NullServer
from guepard.measure.load.outcomes import End
from guepard.measure.load.plan import ReplyRule
from guepard.measure.results import ErrorCount, Run, Slo
from guepard.measure.validity import GENERATOR_CODES, blames_generator
from tests.services.bench_command import BenchResult, codes, run_bench, undisturbed
from tests.services.known_behaviours import (
    AnyBehaviour,
    Closing,
    Dying,
    EarlyClose,
    Errors,
    Events,
    Garbage,
    Redirecting,
)
from tests.services.known_servers import KnownServer
from tests.services.measured_runs import load_plan, measured, measured_at_once, percentile

NOISE_MS = 40.0
"""What other work on the machine may add to a latency."""
PRECISION = 0.999


def only_error(run: Run) -> ErrorCount:
    assert len(run.errors) == 1, run.errors
    return run.errors[0]


def failures_by(run: Run) -> list[int]:
    """Failures of each slice."""
    return [sum(piece.failed.values()) for piece in run.slices]


# errors faster than answers


def test_fast_errors_never_look_like_speed() -> None:
    """A benchmark once counted errors as answers and found the failing server the faster one (memoryops-ai PR#147)."""

    def measure(seconds: float, *options: str) -> BenchResult:
        with KnownServer(Errors(kind="status", share=0.3, error_ms=1, ms=200)) as server:
            load = ("--rate", "100", "--arrivals", "constant", "--duration", f"{seconds}s", "--no-self-test")
            return run_bench(server.url, "--protocol", "http", *load, "--json", *options)

    result = measure(1.0, "--warmup", "0s", "--slo", "p50=400ms")
    run = result.run
    assert result.code == 1
    assert not run.is_valid
    finding = next(finding for finding in run.findings if finding.code == "errors")
    assert "HTTP 429" in finding.reason
    assert "--max-errors" in finding.remedy
    assert_errors_apart(run)
    # 100 requests. What was due in the last 200 ms succeeds after the end.
    assert run.offered == 100
    assert 28 <= only_error(run).count <= 32
    assert 68 <= run.latency.count <= 72
    assert 70 * 0.7 <= run.throughput.value <= 70 * 1.03
    assert run.goodput == pytest.approx(70, rel=0.05)

    forgiving = ("--warmup", "0.3s", "--max-errors", "40%")
    forgiven = undisturbed(lambda: measure(3.5, *forgiving), pardoned=frozenset(("unsteady",)))
    assert_errors_apart(forgiven.run)
    assert (forgiven.code, forgiven.run.is_valid) == (0, True), forgiven.run.findings
    assert forgiven.run.throughput.value == pytest.approx(70, rel=0.1)


def assert_errors_apart(run: Run) -> None:
    """30 % fail after 1 ms and the others are answered after 200 ms."""
    error = only_error(run)
    assert (error.outcome, error.name) == (429, "HTTP 429")
    assert run.failed == run.shed == error.count
    assert error.latency.count / run.offered == pytest.approx(0.3, abs=0.03)
    assert error.latency.min_ms >= 1 * PRECISION
    assert error.latency.mean_ms <= 1 + NOISE_MS
    assert run.latency.count == run.offered - error.latency.count
    assert run.latency.min_ms >= 200 * PRECISION
    assert percentile(run, 50) <= 200 + NOISE_MS


def test_no_answer_in_time_is_an_error_of_its_own(generator: LoadGenerator) -> None:
    with KnownServer(Errors(kind="silence", share=0.1, ms=20)) as server:
        plan = load_plan(server.port, rate=100, seconds=1, timeout_s=0.3)
        run = measured(generator, plan, slo=Slo(percent=50, limit_ms=200))
    error = only_error(run)
    assert error.outcome == End.TIMED_OUT
    assert error.latency.count == 10
    assert error.latency.min_ms >= 300 * PRECISION
    assert error.latency.max_ms <= 300 + 2 * NOISE_MS
    assert run.latency.count == 90
    assert run.latency.min_ms >= 20 * PRECISION
    assert run.latency.max_ms < 300
    assert run.goodput == pytest.approx(90)
    assert "errors" in codes(run)


def test_a_200_that_tells_of_an_error_is_one_where_its_body_is_expected_otherwise() -> None:
    behaviour = Errors(kind="body", share=0.25, error_ms=1, ms=50)
    load = {"rate": 100, "seconds": 1}
    run, believed = measured_at_once((behaviour, load | {"reply": ReplyRule(expect='"ok": *true')}), (behaviour, load))
    error = only_error(run)
    assert error.outcome == End.UNEXPECTED_CONTENT
    assert (error.latency.count, run.latency.count) == (25, 75)
    assert error.latency.mean_ms <= 1 + NOISE_MS
    assert run.latency.min_ms >= 50 * PRECISION
    assert "errors" in codes(run)
    # Nobody said what is right.
    assert (believed.errors, believed.latency.count) == ((), 100)


def test_nothing_succeeds_where_nothing_is_answered() -> None:
    behaviours: list[tuple[AnyBehaviour, int]] = [
        (Garbage(), End.MALFORMED),
        (EarlyClose(sent="nothing"), End.RESET),
        (EarlyClose(sent="half"), End.CLOSED_EARLY),
        (Redirecting(), 307),
    ]
    runs = measured_at_once(*((behaviour, {"rate": 50, "seconds": 0.4}) for behaviour, _ in behaviours))
    for run, (_, outcome) in zip(runs, behaviours, strict=True):
        error = only_error(run)
        assert error.outcome == outcome
        assert (run.offered, run.succeeded, run.latency.count, error.latency.count) == (20, 0, 0, 20)
        assert "no-success" in codes(run)
        assert run.throughput.value == 0
    assert "redirects" in codes(runs[-1], "warning")


def test_connections_that_are_not_kept_are_told(generator: LoadGenerator) -> None:
    with KnownServer(Closing()) as server:
        run = measured(generator, load_plan(server.port, rate=200, seconds=1))
    assert (run.latency.count, run.errors) == (200, ())
    assert run.generator.connections_opened == 200
    assert "no-keep-alive" in codes(run, "warning")


# servers that die half-way

DIED = re.compile(r"after second ([\d.]+) no request succeeded any more")


def assert_died(run: Run, at_s: float) -> None:
    assert not run.is_valid
    finding = next(finding for finding in run.findings if finding.code == "server-died")
    match = DIED.search(finding.reason)
    assert match is not None, finding.reason
    # It counts from its first request, which a busy machine may have brought late.
    assert at_s - 0.11 <= float(match[1]) <= at_s + 0.4
    before = int(at_s * 10) - 1
    failures = failures_by(run)
    assert sum(failures[:before]) == 0, "nothing fails before"
    assert sum(failures[before:]) > 0
    assert sum(piece.succeeded for piece in run.slices[:before]) > 0


def test_a_server_that_dies_half_way_is_said_to_have_died_and_when() -> None:
    endings: dict[Literal["exit", "reset", "silence"], set[int]] = {
        "exit": {End.REFUSED, End.RESET, End.CLOSED_EARLY},
        "reset": {End.RESET},
        "silence": {End.TIMED_OUT},
    }
    load = {"seconds": 1.4, "timeout_s": 0.3}
    began = time.monotonic()
    *runs, callers = measured_at_once(
        *((Dying(after_s=0.7, ending=ending, ms=5), load | {"rate": 200}) for ending in endings),
        (Dying(after_s=0.7, ending="exit", ms=5), load | {"concurrency": 4}),
    )
    assert time.monotonic() - began < 1.4 + 0.3 + 8, "nothing hangs"
    for run, outcomes in zip(runs, endings.values(), strict=True):
        assert_died(run, 0.7)
        assert {error.outcome for error in run.errors} <= outcomes
        assert run.latency.count + sum(error.latency.count for error in run.errors) == 280
        assert sum(failures_by(run)) == pytest.approx(140, abs=80)
    # Callers that wait would count a hundred thousand refusals, if they did not pause.
    assert_died(callers, 0.7)
    assert 4 <= sum(failures_by(callers)) <= 4 * 0.7 * 100


def test_a_server_that_takes_no_new_connections_serves_those_that_it_has(generator: LoadGenerator) -> None:
    with KnownServer(Dying(after_s=0.3, ending="refuse", ms=5)) as server:
        run = measured(generator, load_plan(server.port, concurrency=2, seconds=0.8))
        assert (run.errors, run.generator.connections_opened) == ((), 2)
        after = measured(generator, load_plan(server.port, rate=50, seconds=0.4))
    assert only_error(after).outcome == End.REFUSED
    assert "no-success" in codes(after)


def test_the_command_names_the_second_in_which_a_server_died() -> None:
    with KnownServer(Dying(after_s=1.5, ending="exit", ms=5)) as server:
        load = ("--rate", "100", "--duration", "3s", "--timeout", "0.3s", "--no-self-test", "--warmup", "0s")
        result = run_bench(server.url, "--protocol", "http", *load)
    assert result.code == 1
    assert result.stdout.startswith("INVALID")
    assert DIED.search(" ".join(result.stdout.split()))
    assert "connection refused" in result.stdout


# a generator that cannot keep up


@contextmanager
def busy_loops(core: int, count: int, priority: int) -> Iterator[None]:
    """So many processes that take all they get of one core."""
    loops = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        for loop in loops:
            os.sched_setaffinity(loop.pid, {core})
            os.setpriority(os.PRIO_PROCESS, loop.pid, priority)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_a_generator_starved_of_cpu_voids_the_run() -> None:
    core = max(os.sched_getaffinity(0))
    with NullServer() as server, LoadGenerator(1) as generator:
        plan = load_plan(server.port, rate=4_000, seconds=0.5, timeout_s=5)
        (pid,) = generator.pids
        os.sched_setaffinity(pid, {core})
        measured(generator, load_plan(server.port, rate=100, seconds=0.1))  # by now it has its priority
        with busy_loops(core, 3, os.getpriority(os.PRIO_PROCESS, pid)):
            run = measured(generator, plan)
    assert not run.is_valid
    assert blames_generator(run)
    assert codes(run) & {"send-lag", "generator-starved", "generator-shortfall"}
    assert codes(run) <= GENERATOR_CODES | {"overloaded", "unsteady"}, "nothing is wrong with the server"
    assert run.generator.runqueue_wait_share is not None
    assert run.generator.runqueue_wait_share > 0.1


def test_more_than_a_process_can_send_voids_the_run_and_names_processes() -> None:
    with NullServer() as server:
        load = ("--rate", "60000", "--arrivals", "constant", "--duration", "0.2s", "--processes", "1", "--warmup", "0s")
        result = run_bench(f"http://{server.host}:{server.port}", "--protocol", "http", *load, "--json")
    run = result.run
    assert result.code == 1
    assert blames_generator(run)
    assert "send-lag" in codes(run)
    assert run.generator.self_test_rate is not None
    assert 100 < run.generator.self_test_rate < 120_000
    assert all("--processes" in finding.remedy for finding in run.findings if finding.code in ("send-lag", "self-test"))
    assert run.offered_rate == pytest.approx(60_000, rel=0.1)


# streams

STREAM = reply_rule("openai-chat", "", stream=True)


def test_a_stream_s_times_are_those_of_its_events() -> None:
    """12 tokens and [DONE], 20 ms between two events, or between two pairs of them. Split ones come 1 ms later."""
    kinds: tuple[Literal["event", "joined", "split"], ...] = ("event", "joined", "split")
    load = {"rate": 40, "seconds": 0.5, "reply": STREAM}
    runs = measured_at_once(*((Events(tokens=12, first_ms=100, token_ms=20, pieces=kind), load) for kind in kinds))
    for kind, run in zip(kinds, runs, strict=True):
        assert (run.latency.count, run.errors) == (20, ())
        assert run.first is not None
        assert run.between is not None
        assert run.pieces_per_s is not None
        assert run.first.count == 20
        assert run.first.min_ms >= 100 * PRECISION
        assert run.first.mean_ms <= 100 + NOISE_MS
        total = 100 + 20 * (6 if kind == "joined" else 12)
        assert total * PRECISION <= run.latency.min_ms
        assert run.latency.mean_ms <= total + 2 * NOISE_MS
        # Gaps count when they end, and some do so after the last request was due.
        assert 20 <= run.between.count < 20 * 11
        median = run.between.at(50)
        assert median is not None
        if kind == "joined":
            assert median.value_ms < 1, "of two that come together the second waits for nothing"
            assert run.between.max_ms >= 20 * PRECISION
        else:
            assert 20 * 0.95 <= median.value_ms <= 20 + NOISE_MS / 4


def test_a_stream_that_does_not_end_as_it_should_is_an_error() -> None:
    endings: dict[Literal["missing", "cut", "error"], End] = {
        "missing": End.BROKEN_STREAM,
        "cut": End.CLOSED_EARLY,
        "error": End.BROKEN_STREAM,
    }
    load = {"rate": 40, "seconds": 0.3, "reply": STREAM}
    runs = measured_at_once(*((Events(tokens=6, first_ms=10, token_ms=2, ending=ending), load) for ending in endings))
    for run, outcome in zip(runs, endings.values(), strict=True):
        assert only_error(run).outcome == outcome
        assert (run.succeeded, run.latency.count) == (0, 0)
        assert "no-success" in codes(run)


def test_the_command_measures_streams() -> None:
    with KnownServer(Events(tokens=10, first_ms=100, token_ms=20)) as server:
        load = ("--rate", "40", "--arrivals", "constant", "--duration", "0.8s", "--warmup", "0s", "--no-self-test")
        result = run_bench(server.url, "--protocol", "openai-chat", "--model", "m", *load, "--json")
    run = result.run
    assert result.document is not None
    assert result.document.targets[0].protocol == "openai-chat"
    assert run.latency.count == 32
    assert run.first is not None
    assert run.between is not None
    assert 100 * PRECISION <= run.first.mean_ms <= 100 + NOISE_MS
    assert 20 * 0.95 <= run.between.mean_ms <= 20 + NOISE_MS / 4
    assert 300 * PRECISION <= run.latency.mean_ms <= 300 + 2 * NOISE_MS
