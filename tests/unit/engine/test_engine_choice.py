"""Which engine is chosen, by trials whose outcome the test says."""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replace_candidate

from guepard.backends import registry
from guepard.backends.base import ModelSource
from guepard.core.engine_options import EngineOptions, OpenVinoOptions
from guepard.core.errors import LoadError
from guepard.core.model_config import InstanceGroup, ModelDescription, ModelPolicy
from guepard.core.tensor import TensorSpec
from guepard.engine import engine_choice
from guepard.engine.engine_choice import EngineChooser
from guepard.engine.engine_trial import trial
from guepard.engine.engine_trial.decision import Candidate
from guepard.engine.engine_trial.messages import TrialOrder
from guepard.engine.engine_trial.trial import Outcome, TrialFailed
from guepard.engine.warmup import Timing, Warmup
from tests.services import fake_engines
from tests.services.fake_engines import MS, REFERENCE
from tests.services.onnx_models import mlp, write_model
from tests.unit.engine.fake_executors import FakeExecutor

WON = Candidate(engine="faster", precision="bf16", row_ns=MS, reference_row_ns=3 * MS, ratio=3.0, cosine=0.9999)
LOST = Candidate(engine="faster", precision="f32", rejected="it raised ArithmeticError")

DESCRIPTION = ModelDescription(
    "fake", REFERENCE, (TensorSpec("x", "FP32", [8]),), (TensorSpec("y", "FP32", [5]),), max_batch_size=8
)
HEAVY = Warmup(Timing(3 * MS, 24 * MS), True)


class Trials:
    """Takes the place of trials: `outcome` is what each comes to."""

    def __init__(self) -> None:
        self.orders: list[TrialOrder] = []
        self.outcome: Callable[[], list[Candidate]] = lambda: [WON]
        self.is_complete = True

    def __call__(self, order: TrialOrder, memory_limit_bytes: int) -> Outcome:
        self.orders.append(order)
        return Outcome(self.outcome(), self.is_complete)


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Trials:
    fake_engines.install(monkeypatch, "faster")
    found = Trials()
    monkeypatch.setattr(trial, "try_engines", found)
    return found


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    (tmp_path / "model.bin").write_text("weights")
    return ModelSource("m", "1", tmp_path / "model.bin", ModelPolicy(), cache=tmp_path / "cache", memory_bytes=2**30)


def asking(source: ModelSource, **options: Any) -> ModelSource:
    return replace(source, policy=ModelPolicy(engines=EngineOptions(**options)))


def measured(source: ModelSource, warmup: Warmup = HEAVY, description: ModelDescription = DESCRIPTION) -> EngineChooser:
    chooser = EngineChooser(source, REFERENCE)
    assert chooser.choice.backend == REFERENCE
    assert chooser.is_open
    chooser.measure(FakeExecutor(), description, warmup)
    return chooser


class TestBeforeAnythingIsLoaded:
    def test_an_engine_that_is_named_is_taken_and_not_measured(self, source: ModelSource, trials: Trials) -> None:
        chooser = EngineChooser(asking(source, engine="faster", precision="bf16"), REFERENCE)
        assert chooser.choice[:3] == ("faster", "bf16", "as configured")
        assert not chooser.is_open

    def test_one_that_does_not_execute_such_models_is_refused(self, source: ModelSource, trials: Trials) -> None:
        with pytest.raises(LoadError, match=r"'slower' does not execute .* use one of auto, reference, faster"):
            EngineChooser(asking(source, engine="slower"), REFERENCE)
        with pytest.raises(LoadError, match="'faster' does not execute models of the python backend; remove it"):
            EngineChooser(asking(source, engine="faster"), "python")

    def test_a_backend_without_engines_has_nothing_to_say(self, source: ModelSource, trials: Trials) -> None:
        chooser = EngineChooser(asking(source, precision="f16"), "python")
        assert chooser.choice[:3] == ("python", "f16", "")
        assert not chooser.is_open

    def test_an_engine_that_is_not_installed_is_not_thought_of(
        self, source: ModelSource, trials: Trials, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(registry._MODULES, "faster", "a_package_that_is_not_there")
        chooser = EngineChooser(source, REFERENCE)
        assert chooser.choice[:3] == (REFERENCE, None, "the reference engine, as no other is installed")
        assert not chooser.is_open

    @pytest.mark.parametrize(("asked", "precision"), [(None, None), ("f32", "f32"), ("bf16", None)])
    def test_the_reference_has_full_precision_whatever_the_others_are_asked_for(
        self, source: ModelSource, trials: Trials, asked: Any, precision: str | None
    ) -> None:
        trials.outcome = lambda: [LOST]
        chooser = measured(asking(source, precision=asked))
        assert trials.orders[0].source.precision == precision
        assert trials.orders[0].source.policy.engines.precision == asked
        assert chooser.choice[:2] == (REFERENCE, precision)

    def test_an_operator_who_set_the_options_of_the_reference_wants_it(
        self, source: ModelSource, trials: Trials, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(registry.ENGINES, "openvino", ("openvino", "faster"))
        assert EngineChooser(source, "openvino").is_open
        tuned = asking(source, openvino=OpenVinoOptions(num_streams=3), precision="bf16")
        chooser = EngineChooser(tuned, "openvino")
        assert chooser.choice[:3] == ("openvino", "bf16", "the reference engine, whose own options are set")
        assert not chooser.is_open

    def test_a_model_that_is_to_run_on_a_gpu_is_left_to_the_reference(
        self, source: ModelSource, trials: Trials
    ) -> None:
        kind: dict[str, Any] = {"kind": "gpu"}
        on_gpu = replace(source, policy=ModelPolicy(instance_group=InstanceGroup(**kind)))
        assert not EngineChooser(on_gpu, REFERENCE).is_open

    def test_with_little_memory_nothing_is_tried(self, source: ModelSource, trials: Trials) -> None:
        chooser = EngineChooser(replace(source, profile="low-memory"), REFERENCE)
        assert "low-memory" in chooser.choice.reason
        assert not chooser.is_open


class TestMeasuring:
    def test_the_winner_is_chosen_with_its_figures(
        self, source: ModelSource, trials: Trials, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        chooser = measured(source)
        assert chooser.choice[:2] == ("faster", "bf16")
        assert chooser.choice.ratio == 3.0
        assert chooser.choice.facts["candidates"] == [WON.facts()]
        assert chooser.choice.facts["cached"] is False
        assert not chooser.is_open
        (line,) = [record.getMessage() for record in caplog.records]
        assert line.startswith(
            "model m: engine faster in bf16 was chosen: 3.00 times as fast as reference (1 ms a row against 3), "
            "worst cosine 0.999900; decided by measurement in "
        )

    def test_the_trial_is_of_the_model_as_it_will_be_served(self, source: ModelSource, trials: Trials) -> None:
        measured(source)
        (order,) = trials.orders
        assert (order.source, order.reference, order.engines, order.rows) == (source, REFERENCE, ("faster",), 8)
        assert order.homes["faster"] == ("tests.services.fake_engines", "Faster")

    @pytest.mark.parametrize(
        ("description", "independent", "rows"),
        [
            (DESCRIPTION, None, 8),
            (replace(DESCRIPTION, batch_verified=False), True, 8),
            (replace(DESCRIPTION, batch_verified=False), False, 1),
            (replace(DESCRIPTION, max_batch_size=0), None, None),
        ],
    )
    def test_rows_share_a_batch_only_where_they_may(
        self, source: ModelSource, trials: Trials, description: ModelDescription, independent: bool | None, rows: int
    ) -> None:
        measured(source, Warmup(Timing(3 * MS, 24 * MS), independent), description)
        assert trials.orders[0].rows == rows

    def test_where_nobody_wins_the_reference_stays(self, source: ModelSource, trials: Trials) -> None:
        trials.outcome = lambda: [LOST]
        choice = measured(source).choice
        assert choice[:3] == (
            REFERENCE,
            None,
            "the reference engine: faster in f32: it raised ArithmeticError",
        )
        assert choice.facts["candidates"] == [LOST.facts()]
        assert choice.ratio == 1.0

    def test_a_light_model_is_left_alone(self, source: ModelSource, trials: Trials) -> None:
        chooser = measured(source, Warmup(Timing(MS // 2, 4 * MS), True))
        assert chooser.choice.reason == "the reference engine: one row takes 0.5 ms, too little to gain"
        assert not trials.orders
        assert not (source.cache or Path()).exists()

    def test_a_model_that_took_no_sample_is_left_alone(self, source: ModelSource, trials: Trials) -> None:
        assert "no warm-up sample" in measured(source, Warmup(None, None)).choice.reason
        assert not trials.orders

    def test_a_stream_of_answers_is_left_alone(self, source: ModelSource, trials: Trials) -> None:
        measured(source, HEAVY, replace(DESCRIPTION, decoupled=True))
        assert not trials.orders

    def test_a_model_with_free_dimensions_is_judged_by_a_size_that_callers_send(
        self, source: ModelSource, trials: Trials, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = [0]
        monkeypatch.setattr(engine_choice, "perf_counter_ns", lambda: clock[0])

        def run(x: Any) -> Any:
            if x.shape[1] > 200:
                raise ValueError
            clock[0] += x.shape[1] * MS // 20
            return x

        free = replace(DESCRIPTION, inputs=(TensorSpec("x", "FP32", [-1]),))
        chooser = EngineChooser(source, REFERENCE)
        chooser.measure(FakeExecutor(run), free, Warmup(Timing(MS // 20, MS), True))
        assert trials.orders[0].free_size == 128
        assert chooser.choice.backend == "faster"

    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            (TrialFailed("no process could be started for it"), "no other was measured, as no process could be"),
            (ArithmeticError(), "the trial of others failed (ArithmeticError)"),
        ],
    )
    def test_a_trial_that_fails_costs_nothing_but_the_choice(
        self, source: ModelSource, trials: Trials, error: Exception, reason: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail() -> list[Candidate]:
            raise error

        trials.outcome = fail
        choice = measured(source).choice
        assert choice.backend == REFERENCE
        assert reason in choice.reason
        assert caplog.records
        trials.outcome = lambda: [WON]  # and is not remembered
        assert measured(source).choice.backend == "faster"

    def test_one_model_is_tried_at_a_time(
        self, source: ModelSource, trials: Trials, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def wait() -> list[Candidate]:
            begun.set()
            assert go_on.wait(30)
            return [WON]

        trials.outcome = wait
        thread = threading.Thread(target=lambda: measured(source))
        thread.start()
        assert begun.wait(30)
        monkeypatch.setattr(engine_choice, "_TURN_S", 0.01)
        try:
            assert "took too long to wait for" in measured(source).choice.reason
        finally:
            go_on.set()
            thread.join()
        assert len(trials.orders) == 1

    def test_two_models_with_the_same_content_are_tried_once(self, source: ModelSource, trials: Trials) -> None:
        one, other = EngineChooser(source, REFERENCE), EngineChooser(source, REFERENCE)
        for chooser in (one, other):
            chooser.measure(FakeExecutor(), DESCRIPTION, HEAVY)
        assert len(trials.orders) == 1
        assert other.choice.backend == "faster"
        assert other.choice.facts["cached"] is True


class TestRemembering:
    def test_a_decision_is_found_again_before_anything_is_loaded(self, source: ModelSource, trials: Trials) -> None:
        first = measured(source).choice
        chooser = EngineChooser(source, REFERENCE)
        assert not chooser.is_open
        assert chooser.choice[:3] == first[:3]
        assert chooser.choice.facts["cached"] is True
        assert len(trials.orders) == 1

    def test_that_nobody_won_is_remembered_too(self, source: ModelSource, trials: Trials) -> None:
        trials.outcome = lambda: [LOST]
        measured(source)
        chooser = EngineChooser(source, REFERENCE)
        assert chooser.choice.backend == REFERENCE
        assert not chooser.is_open

    @pytest.mark.parametrize("is_complete", [True, False])
    def test_what_was_cut_short_is_measured_again(self, source: ModelSource, trials: Trials, is_complete: bool) -> None:
        trials.outcome = lambda: [replace_candidate(LOST, is_cut=is_complete)]
        trials.is_complete = is_complete
        assert measured(source).choice.facts["candidates"]
        assert EngineChooser(source, REFERENCE).is_open

    def test_another_model_is_measured(self, source: ModelSource, trials: Trials) -> None:
        measured(source)
        source.path.write_text("other weights")
        assert EngineChooser(source, REFERENCE).is_open

    def test_other_options_are_measured(self, source: ModelSource, trials: Trials) -> None:
        measured(source)
        assert EngineChooser(asking(source, min_precision="f32"), REFERENCE).is_open

    def test_without_a_cache_each_load_measures(self, source: ModelSource, trials: Trials) -> None:
        source = replace(source, cache=None)
        measured(source)
        measured(source)
        assert len(trials.orders) == 2

    def test_a_winner_that_fails_to_load_is_forgotten_and_the_reference_serves(
        self, source: ModelSource, trials: Trials, caplog: pytest.LogCaptureFixture
    ) -> None:
        measured(source)
        chooser = EngineChooser(source, REFERENCE)
        assert chooser.fall_back(LoadError("its driver has gone"))
        assert chooser.choice[:3] == (
            REFERENCE,
            None,
            "the reference engine, as faster failed to load: its driver has gone",
        )
        assert not chooser.is_open
        assert "faster failed to load, so reference serves: its driver has gone" in caplog.text
        assert EngineChooser(source, REFERENCE).is_open

    def test_an_engine_that_was_named_has_no_other_to_fall_back_to(self, source: ModelSource, trials: Trials) -> None:
        assert not EngineChooser(asking(source, engine="faster"), REFERENCE).fall_back(LoadError("no"))

    def test_nor_has_the_reference(self, source: ModelSource, trials: Trials) -> None:
        trials.outcome = lambda: [LOST]
        assert not measured(source).fall_back(LoadError("no"))
        assert not EngineChooser(source, REFERENCE).fall_back(LoadError("no"))

    def test_a_model_that_cannot_be_read_is_left_to_whoever_loads_it(self, source: ModelSource, trials: Trials) -> None:
        measured(source)
        source.path.unlink()
        assert EngineChooser(source, REFERENCE).is_open


ENDS_IN_A_LOAD = """
import os, sys
from pathlib import Path
from guepard.engine.engine_trial.decision_cache import DecisionCache
DecisionCache(Path(sys.argv[1])).load_mark(sys.argv[2]).set()
os._exit(0)
"""


def end_in_a_load(source: ModelSource) -> None:
    """A server that a load takes with it."""
    subprocess.run([sys.executable, "-c", ENDS_IN_A_LOAD, str(source.cache), key_of(source)], check=True)


def key_of(source: ModelSource) -> str:
    assert source.cache is not None
    (decision,) = (source.cache / "engines").glob("*.json")
    return decision.stem


class TestLoadsThatNeverEnd:
    def test_a_load_that_ends_leaves_no_mark(self, source: ModelSource, trials: Trials) -> None:
        assert source.cache is not None
        chooser = measured(source)
        for load in (None, LoadError("its driver has gone")):
            with suppress(LoadError), chooser.loading():
                assert list(source.cache.rglob("*.loading"))
                if load is not None:
                    raise load
            assert not list(source.cache.rglob("*.loading"))

    def test_an_engine_whose_loads_never_end_is_not_loaded_again(
        self, source: ModelSource, trials: Trials, caplog: pytest.LogCaptureFixture
    ) -> None:
        measured(source)
        for _ in range(2):
            end_in_a_load(source)
        chooser = EngineChooser(source, REFERENCE)
        assert chooser.choice.backend == "faster"
        with chooser.loading():
            assert chooser.choice[:2] == (REFERENCE, None)
        assert not chooser.is_open
        assert "the server ended while faster loaded it, so reference serves" in caplog.text
        assert measured(source).choice.backend == "faster"  # it may have been another model that ended the server

    def test_one_load_that_somebody_ended_says_nothing(self, source: ModelSource, trials: Trials) -> None:
        measured(source)
        end_in_a_load(source)
        for _ in range(3):
            chooser = EngineChooser(source, REFERENCE)
            with chooser.loading():
                assert chooser.choice.backend == "faster"

    def test_loads_of_two_servers_at_once_are_not_held_against_the_engine(
        self, source: ModelSource, trials: Trials
    ) -> None:
        choosers = [measured(source), *[EngineChooser(source, REFERENCE) for _ in range(3)]]
        with ExitStack() as stack:
            for chooser in choosers:
                stack.enter_context(chooser.loading())
            assert [chooser.choice.backend for chooser in choosers] == ["faster"] * 4

    @pytest.mark.parametrize("spoil", [Path.mkdir, lambda path: path.symlink_to("/dev/null")], ids=["folder", "link"])
    def test_a_mark_that_cannot_be_set_is_done_without(
        self, source: ModelSource, trials: Trials, spoil: Callable[[Path], None]
    ) -> None:
        measured(source)
        assert source.cache is not None
        spoil(source.cache / "engines" / f"{key_of(source)}.loading")
        chooser = EngineChooser(source, REFERENCE)
        with chooser.loading():
            assert chooser.choice.backend == "faster"

    def test_nor_is_one_needed_without_a_cache(self, source: ModelSource, trials: Trials) -> None:
        chooser = measured(replace(source, cache=None))
        with chooser.loading():
            assert chooser.choice.backend == "faster"


def test_what_trials_need_is_not_imported_before_there_is_one(tmp_path: Path) -> None:
    """Nor is any engine: a light model is ready as soon as with one engine."""
    program = f"""
import sys
from pathlib import Path
from guepard.core.model_config import ModelPolicy
from guepard.engine.model_loader import load_version
from guepard.engine.model_repository import ModelDefinition
from guepard.engine.resources import Resources

path = Path({str(write_model(tmp_path, mlp()))!r})
load_version(ModelDefinition("m", path, ModelPolicy()), "1", path, Resources(1, 2**30, cache=path.parent / "cache"))
print([name for name in sys.modules if name == "openvino" or name.endswith((".trial", ".decision_key"))])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
