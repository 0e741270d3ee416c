"""Whether executions on all CPUs pay, by runs whose times the test decides."""

from collections.abc import Callable, Collection
from typing import Any, Literal

import pytest

from guepard.core.model_config import Execution, InstanceGroup, ModelDescription
from guepard.core.tensor import TensorSpec
from guepard.engine import timed_turns, wide_choice
from guepard.engine.cpu_times import CpuTime
from guepard.engine.resources import Resources
from guepard.engine.warmup import Timing, Warmup
from guepard.engine.wide_choice import WideChoice, choose_wide, measure_widths
from tests.unit.engine.fake_executors import FakeExecutor, FakeModel

MS = 1_000_000


Shares = Callable[[], tuple[float, float]]


class Clock:
    """Stands still but for runs of executors that were made with `taking`. Two threads compute."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0
        self.runs = 0
        self.had = [0, 0]
        self.waited = [0, 0]
        self.threads = {1, 2}
        self.helpers: set[int] = set()  # whose times were asked for
        monkeypatch.setattr(timed_turns, "perf_counter_ns", lambda: self.now)
        monkeypatch.setattr(timed_turns, "cpu_times", self.cpu_times)
        monkeypatch.setattr(wide_choice, "thread_ids", lambda: set(self.threads))

    def cpu_times(self, helpers: Collection[int]) -> list[CpuTime]:
        self.helpers |= set(helpers)
        return [CpuTime(*times) for times in zip(self.had, self.waited, strict=True)]

    def taking(
        self, cost_ms: Callable[[int], float], waiting: Shares = lambda: (0, 0), having: Shares = lambda: (1, 0)
    ) -> FakeExecutor:
        """`waiting`, `having`: shares of a run for which each thread waits for a CPU, and has one."""

        def run(array: Any) -> Any:
            cost_ns = int(cost_ms(len(array)) * MS)
            self.now += cost_ns
            for times, shares in ((self.waited, waiting()), (self.had, having())):
                for thread, share in enumerate(shares):
                    times[thread] += int(share * cost_ns)
            self.runs += 1
            return array * 2

        return FakeExecutor(run)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def described(max_batch_size: int = 64, **fields: Any) -> ModelDescription:
    specs = (TensorSpec("x", "FP32", [1]),), (TensorSpec("y", "FP32", [1]),)
    return ModelDescription("test", "test", *specs, max_batch_size=max_batch_size, **fields)


class TestMeasuring:
    def test_what_is_twice_as_fast_pays_up_to_the_largest_batch(self, clock: Clock) -> None:
        narrow, wide = clock.taking(lambda rows: 2 * rows), clock.taking(lambda rows: rows)
        max_rows, reason = measure_widths(narrow, wide, described(), 1)
        assert max_rows == 64
        assert reason == "one row takes 1 ms wide and 2 ms narrow"

    @pytest.mark.parametrize(("wide_ms", "expected"), [(1.9, 0), (1.81, 0), (1.79, 64)])
    def test_it_must_be_more_than_a_tenth_faster(self, clock: Clock, wide_ms: float, expected: int) -> None:
        narrow, wide = clock.taking(lambda rows: 2 * rows), clock.taking(lambda rows: wide_ms * rows)
        assert measure_widths(narrow, wide, described(), 1)[0] == expected

    @pytest.mark.parametrize(("row_ms", "runs"), [(20, 24), (200, 8), (2_000, 4)])
    def test_the_slower_a_model_the_fewer_runs_say_enough(self, clock: Clock, row_ms: float, runs: int) -> None:
        """Else a model of two seconds a row would load for a minute."""
        narrow, wide = clock.taking(lambda rows: row_ms * rows), clock.taking(lambda rows: row_ms * rows)
        assert measure_widths(narrow, wide, described(), 1)[0] == 0
        assert clock.runs == runs + 2  # which compare the answers

    def test_it_pays_up_to_the_last_size_for_which_it_did(self, clock: Clock) -> None:
        narrow, wide = clock.taking(lambda rows: 2 * rows), clock.taking(lambda rows: rows if rows < 16 else 2 * rows)
        assert measure_widths(narrow, wide, described(), 1)[0] == 4

    def test_what_takes_long_is_not_tried_with_more_rows(self, clock: Clock) -> None:
        narrow, wide = clock.taking(lambda rows: 30 * rows), clock.taking(lambda rows: 16 * rows)
        assert measure_widths(narrow, wide, described(), 1)[0] == 64
        assert max(len(run) for run in narrow.runs) == 1
        assert clock.now < 1_000 * MS

    def test_a_model_without_batches_has_single_runs(self, clock: Clock) -> None:
        narrow, wide = clock.taking(lambda _: 2), clock.taking(lambda _: 1)
        assert measure_widths(narrow, wide, described(0), 1)[0] == 1

    def test_a_gain_that_others_hide_for_a_while_is_found(self, clock: Clock) -> None:
        turns = iter([2] * 6 + [1] * 100)
        narrow, wide = clock.taking(lambda rows: 2 * rows), clock.taking(lambda rows: next(turns) * rows)
        assert measure_widths(narrow, wide, described(1), 1)[0] == 1

    def test_one_slow_run_among_others_decides_nothing(self, clock: Clock) -> None:
        turns = iter([1, 50, 1, 1, 50] + [1] * 100)
        narrow, wide = clock.taking(lambda rows: 2 * rows), clock.taking(lambda rows: next(turns) * rows)
        assert measure_widths(narrow, wide, described(1), 1)[0] == 1

    @pytest.mark.parametrize(
        ("having", "expected"), [((0.5, 0.5), 64), ((0.5, 0.89), 64), ((0.89, 0.5), 64), ((0.5, 0.91), 0), ((1, 0), 0)]
    )
    def test_while_others_have_the_cpus_the_busiest_thread_tells(
        self, clock: Clock, having: tuple[float, float], expected: int
    ) -> None:
        narrow = clock.taking(lambda rows: 2 * rows)
        wide = clock.taking(lambda rows: 2 * rows, lambda: (0.5, 0), lambda: having)
        assert measure_widths(narrow, wide, described(), 1)[0] == expected

    def test_the_reason_then_names_both_figures(self, clock: Clock) -> None:
        narrow = clock.taking(lambda rows: 2.1 * rows)
        wide = clock.taking(lambda rows: 2.4 * rows, lambda: (0.2, 0), lambda: (0.5, 0.4))
        assert measure_widths(narrow, wide, described(), 1)[1] == (
            "one row takes 2.4 ms wide and 2.1 ms narrow while other work has the CPUs, "
            "which its busiest thread had for 1.2 ms and 2.1 ms"
        )

    def test_others_who_hold_up_the_narrow_runs_make_up_no_gain(self, clock: Clock) -> None:
        narrow = clock.taking(lambda rows: 4 * rows, lambda: (0.5, 0), lambda: (0.5, 0))
        wide = clock.taking(lambda rows: 2 * rows)
        assert measure_widths(narrow, wide, described(), 1)[0] == 0

    def test_larger_batches_are_judged_by_the_busiest_thread_too(self, clock: Clock) -> None:
        narrow = clock.taking(lambda rows: 2 * rows)
        shares = iter([0.5] * (1 + 4 + 4) + [1] * 4)
        wide = clock.taking(lambda rows: 2 * rows, lambda: (0, 0.5), lambda: (next(shares), 0))
        assert measure_widths(narrow, wide, described(), 1)[0] == 4

    def test_one_calm_run_of_each_is_enough_to_go_by_the_time_they_take(self, clock: Clock) -> None:
        waits = iter([0.5, 0.5, 0.5, 0.1] + [0.5] * 100)  # the first is no trial, but a comparison of answers
        narrow = clock.taking(lambda rows: 2 * rows)
        wide = clock.taking(lambda rows: 2 * rows, lambda: (next(waits), 0), lambda: (0.5, 0.5))
        assert measure_widths(narrow, wide, described(), 1) == (0, "one row takes 2 ms wide and 2 ms narrow")

    def test_many_threads_that_wait_a_little_each_are_calm(self, clock: Clock) -> None:
        narrow = clock.taking(lambda rows: 2 * rows)
        wide = clock.taking(lambda rows: 2 * rows, lambda: (0.09, 0.09), lambda: (0.5, 0.5))
        assert measure_widths(narrow, wide, described(), 1)[0] == 0

    def test_a_gain_of_the_busiest_thread_that_hides_for_a_while_is_found(self, clock: Clock) -> None:
        shares = iter([1] * 6 + [0.5] * 100)
        narrow = clock.taking(lambda rows: 2 * rows)
        wide = clock.taking(lambda rows: 2 * rows, lambda: (0.5, 0), lambda: (next(shares), 0))
        assert measure_widths(narrow, wide, described(1), 1)[0] == 1

    def test_an_executor_that_says_something_else_is_not_used(self, clock: Clock) -> None:
        wide = FakeExecutor(lambda array: array + 1)
        assert measure_widths(clock.taking(lambda _: 2), wide, described(), 1) == (0, "its answers differ")


class TestChoosing:
    """A model of which one row takes 2 ms narrow and 1 ms wide, on two instances of two CPUs."""

    def choose(
        self,
        clock: Clock,
        *,
        cpus: int = 2,
        instances: int = 2,
        execution: Execution = "thread",
        one_ns: int | None = 2 * MS,
        wide: FakeExecutor | Literal["faster"] | None = "faster",
        option: Literal["auto", "never"] = "auto",
        profile: Literal["standard", "low-memory"] = "standard",
        **description: Any,
    ) -> WideChoice:
        if wide == "faster":
            wide = clock.taking(lambda rows: rows)
        self.wide = wide
        model = FakeModel(clock.taking(lambda rows: 2 * rows), wide)
        timing = None if one_ns is None else Timing(one_ns, 8 * one_ns)
        return choose_wide(
            InstanceGroup(wide=option),
            Resources(cpus, 2**30, profile),
            model,
            described(**description),
            execution,
            instances,
            Warmup(timing, True),
        )

    def test_where_it_pays_there_is_an_executor_for_it(self, clock: Clock) -> None:
        choice = self.choose(clock)
        assert (choice.executor, choice.max_rows) == (self.wide, 64)
        assert choice.narrow is not None

    def test_the_threads_that_are_watched_are_those_that_came_with_its_sessions(
        self, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def make(number: int, executor: FakeExecutor | None) -> FakeExecutor | None:
            clock.threads.add(number)
            return executor

        monkeypatch.setattr(FakeModel, "wide_executor", lambda model: make(3, model._wide))
        monkeypatch.setattr(FakeModel, "executor", lambda model: make(4, model._executor))
        self.choose(clock)
        assert clock.helpers == {3, 4}

    @pytest.mark.parametrize(
        "fields",
        [
            {"cpus": 1},
            {"instances": 1},
            {"execution": "inline"},
            {"execution": "process"},
            {"one_ns": None},
            {"profile": "low-memory"},
            {"releases_gil": False},
            {"decoupled": True},
        ],
    )
    def test_where_there_is_nothing_to_choose_nothing_is_tried_or_said(
        self, clock: Clock, fields: dict[str, Any]
    ) -> None:
        assert self.choose(clock, **fields) == WideChoice(None, 0, "")
        assert clock.runs == 0

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"option": "never"}, "instance_group.wide is never"),
            ({"one_ns": MS - 1}, "one row takes 1 ms, too little to be shared out"),
            ({"wide": None}, "its weights would be in memory twice"),
        ],
    )
    def test_where_it_is_left_alone_the_reason_is_told(self, clock: Clock, fields: dict[str, Any], reason: str) -> None:
        assert self.choose(clock, **fields) == WideChoice(None, 0, reason)
        assert clock.runs == 0

    def test_where_it_does_not_pay_its_executor_is_closed(self, clock: Clock) -> None:
        wide = clock.taking(lambda rows: 2 * rows)
        choice = self.choose(clock, wide=wide)
        assert (choice.executor, choice.reason) == (None, "one row takes 2 ms wide and 2 ms narrow")
        assert wide.closed

    def test_a_trial_that_fails_costs_nothing_but_the_width(
        self, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(_: Any) -> Any:
            raise ArithmeticError

        assert self.choose(clock, wide=FakeExecutor(fail)).reason == "the trial failed"
        assert "could not be tried" in caplog.text
