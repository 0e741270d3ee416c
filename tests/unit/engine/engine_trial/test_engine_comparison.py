"""Engines beside the reference engine, on a clock that stands still but for their runs."""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guepard.backends.base import LoadedModel, ModelSource
from guepard.core.engine_options import EngineOptions, Precision, Tolerance
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelPolicy
from guepard.engine import timed_turns
from guepard.engine.cpu_times import CpuTime
from guepard.engine.engine_trial import comparison
from guepard.engine.engine_trial.comparison import Comparison, allowed
from guepard.engine.engine_trial.decision import Candidate
from guepard.engine.engine_trial.messages import Begins, Done, Message, Refused, TrialOrder, Tried
from tests.services import fake_engines
from tests.services.fake_engines import ENGINES, MS, REFERENCE

SECOND = 1_000 * MS


class Clock:
    """`cpus` is how many CPUs a run has at once; `load` how long others have the CPUs, as a share of a run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.had = self.waited = self.cpu = 0
        self.cpus = 1.0
        self.load = 0.0
        monkeypatch.setattr(fake_engines, "spend", self.spend)
        monkeypatch.setattr(timed_turns, "perf_counter_ns", lambda: self.now)
        monkeypatch.setattr(timed_turns, "process_time_ns", lambda: self.cpu)
        monkeypatch.setattr(timed_turns, "cpu_times", self.cpu_times)
        monkeypatch.setattr(comparison, "monotonic_ns", lambda: self.now)

    def spend(self, duration_ns: int) -> None:
        self.now += int(duration_ns * (1 + self.load))
        self.had += duration_ns
        self.waited += int(duration_ns * self.load)
        self.cpu += int(duration_ns * self.cpus)

    def cpu_times(self, helpers: Collection[int]) -> list[CpuTime]:
        return [CpuTime(self.had, self.waited)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def order(*engines: str, path: Path = Path(), **options: Any) -> TrialOrder:
    policy = ModelPolicy(engines=EngineOptions(**options))
    return TrialOrder(ModelSource("m", "1", path, policy), REFERENCE, engines, {}, 8, 1, 9 * SECOND)


def followed(order: TrialOrder) -> list[Message]:
    told: list[Message] = []

    def load(engine: str, precision: Precision | None) -> LoadedModel:
        return ENGINES[engine]().load(replace(order.source, precision=precision))  # type: ignore[no-any-return]

    Comparison(order, load, lambda engine: ENGINES[engine]().native_precisions(), told.append).run()
    return told


def tried(order: TrialOrder) -> list[Candidate]:
    return [message.candidate for message in followed(order) if isinstance(message, Tried)]


class TestWhatIsTold:
    def test_each_step_is_told_before_it_begins(self, clock: Clock) -> None:
        told = followed(order("faster", "two_precisions"))
        assert [message for message in told if isinstance(message, Begins)] == [
            Begins(REFERENCE, "", False),
            Begins("faster", "", False),
            Begins("faster", "f32", False),
            Begins("two_precisions", "", True),
            Begins("two_precisions", "bf16", False),
            Begins("two_precisions", "f32", True),
        ]
        assert told[-1] == Done()

    def test_what_was_tried_is_not_tried_again(self, clock: Clock) -> None:
        again = replace(
            order("faster", "two_precisions"), tried=frozenset({("faster", ""), ("two_precisions", "bf16")})
        )
        assert [(each.engine, each.precision) for each in tried(again)] == [("two_precisions", "f32")]

    def test_a_reference_that_fails_ends_it(self, clock: Clock) -> None:
        refused = replace(order("faster"), reference="refusing")
        assert followed(refused)[1:] == [Refused("it lacks the operator Tanh")]

    def test_a_reference_that_takes_no_sample_ends_it(self, clock: Clock) -> None:
        assert followed(replace(order("faster"), reference="raising"))[1:] == [Refused("it raised ArithmeticError")]

    def test_an_engine_that_cannot_say_what_it_is_good_at_is_refused(
        self, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: object) -> list[Precision]:
            raise LoadError("it finds no device")

        monkeypatch.setattr(ENGINES["faster"], "native_precisions", fail)
        assert tried(order("faster")) == [Candidate(engine="faster", precision="", rejected="it finds no device")]


class TestFigures:
    def test_a_faster_engine_has_them_all(self, clock: Clock) -> None:
        (found,) = tried(order("faster"))
        assert (found.row_ns, found.reference_row_ns, found.ratio, found.top1) == (1 * MS, 3 * MS, 3.0, 1.0)
        assert found.cosine == pytest.approx(1.0)
        assert found.load_ns == 0
        assert not found.rejected

    def test_a_slower_one_too(self, clock: Clock) -> None:
        assert tried(order("slower"))[0].ratio == 0.75

    def test_the_batch_in_which_it_gains_least_counts(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        """A fixed cost of 2 ms: half of a run of one row, little of one of four."""
        execute = fake_engines.FakeExecutor.execute

        def with_a_fixed_cost(executor: Any, inputs: Any, requests: Any) -> Any:
            clock.spend(2 * MS)
            return execute(executor, inputs, requests)

        monkeypatch.setattr(fake_engines.FakeExecutor, "execute", with_a_fixed_cost)
        (found,) = tried(order("faster"))
        assert found.ratio == 1.667
        assert found.row_ns == 3 * MS

    def test_others_who_have_the_cpus_do_not_decide(self, clock: Clock) -> None:
        clock.load = 3.0
        assert tried(order("faster"))[0].ratio == 3.0

    def test_cpus_that_it_was_not_given_do_not_count(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        change = ENGINES["greedy"].change

        def with_four_cpus(engine: Any, y: Any) -> Any:
            clock.cpu += 4 * MS * len(y)
            return change(engine, y)

        monkeypatch.setattr(ENGINES["greedy"], "change", with_four_cpus)
        (found,) = tried(order("greedy"))
        assert found.ratio == pytest.approx(3 / 5)

    def test_a_model_without_batches_is_run_by_rows_of_its_own(self, clock: Clock) -> None:
        single = replace(order("faster"), rows=1)
        assert tried(single)[0].ratio == 3.0

    def test_it_takes_no_longer_than_it_may(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ENGINES[REFERENCE], "row_ns", lambda *_: SECOND // 2)
        monkeypatch.setattr(ENGINES["slower"], "row_ns", lambda *_: SECOND)
        tried(order("slower"))
        assert clock.now < 20 * SECOND

    def test_without_time_it_is_not_measured(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ENGINES[REFERENCE], "row_ns", lambda *_: 3 * SECOND)
        (found,) = tried(order("faster"))
        assert (found.ratio, found.rejected) == (None, "there was no time to measure it")


class TestRefusals:
    @pytest.mark.parametrize(
        ("engine", "rejected"),
        [
            ("wrong", "the cosine of 'y' is"),
            ("nan", "'y' has NaN or infinity where the reference has numbers"),
            ("raising", "it raised ArithmeticError"),
            ("refusing", "it lacks the operator Tanh"),
            ("reshaping", "it describes the model's outputs otherwise: [('z', 'FP32', (5,))]"),
        ],
    )
    def test_the_reason_is_told_and_the_next_is_tried(self, clock: Clock, engine: str, rejected: str) -> None:
        first, second = tried(order(engine, "faster"))
        assert rejected in first.rejected
        assert first.ratio is None
        assert second.ratio == 3.0

    def test_the_tolerance_is_that_of_the_model(self, clock: Clock) -> None:
        (found,) = tried(order("wrong", tolerance=Tolerance(cosine=-1.0, top1=False)))
        assert not found.rejected

    def test_the_folders_sample_is_compared_too(self, clock: Clock, tmp_path: Path, monkeypatch: Any) -> None:
        sample = {"name": "x", "datatype": "FP32", "shape": [1, 8], "data": [100] * 8}
        (tmp_path / "sample.json").write_text(json.dumps({"inputs": [sample]}))
        monkeypatch.setattr(ENGINES["faster"], "change", lambda _, y: -y if abs(y).max() > 50 else y)
        assert not tried(order("faster"))[0].rejected
        assert "the cosine" in tried(order("faster", path=tmp_path))[0].rejected


class TestSamples:
    def test_what_the_reference_refuses_is_asked_of_nobody(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        execute = fake_engines.FakeExecutor.execute
        refused: list[str] = []

        def positive_only(executor: Any, inputs: Any, requests: Any) -> Any:
            if inputs[0].min() < 0:
                refused.append("normal")
                raise ValueError
            return execute(executor, inputs, requests)

        monkeypatch.setattr(fake_engines.FakeExecutor, "execute", positive_only)
        (found,) = tried(order("faster"))
        assert found.ratio == 3.0
        assert len(refused) == 1

    def test_a_heavy_model_has_fewer_rows(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        rows: list[int] = []
        change = ENGINES["faster"].change

        def counted(engine: Any, y: Any) -> Any:
            rows.append(len(y))
            return change(engine, y)

        monkeypatch.setattr(ENGINES["faster"], "change", counted)
        monkeypatch.setattr(ENGINES[REFERENCE], "row_ns", lambda *_: 60 * MS)
        tried(order("faster"))
        assert rows[0] == 3


class TestPrecisions:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, ["bf16", "f16", "f32"]),
            ({"precision": "f32"}, ["f32"]),
            ({"precision": "bf16"}, ["bf16"]),
            ({"min_precision": "f32"}, ["f32"]),
            ({"min_precision": "bf16"}, ["bf16", "f32"]),
            ({"min_precision": "f16"}, ["bf16", "f16", "f32"]),
            ({"precision": "bf16", "min_precision": "f32"}, []),
        ],
    )
    def test_those_that_the_operator_allows(self, options: Any, expected: list[Precision]) -> None:
        assert allowed(("bf16", "f16", "f32"), EngineOptions(**options)) == expected

    def test_those_that_are_not_allowed_are_not_tried(self, clock: Clock) -> None:
        assert [each.precision for each in tried(order("two_precisions", min_precision="f32"))] == ["f32"]

    def test_an_engine_that_has_none_that_is_allowed_says_so(self, clock: Clock) -> None:
        (found,) = tried(order("faster", precision="bf16"))
        assert found.rejected == "it computes in no precision that is allowed"
