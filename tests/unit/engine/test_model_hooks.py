"""A model and the steps around it: what callers see, and what executors answer with."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from guepard.core.errors import LoadError
from guepard.core.hooks import Hooks, StepSpec
from guepard.core.model_config import ModelDescription
from guepard.core.tensor import Array, TensorSpec
from guepard.engine.model_hooks import HookedExecutor, ModelHooks
from guepard.engine.warmup import warm_up
from tests.unit.engine.fake_executors import FakeExecutor
from tests.unit.engine.fake_steps import MODEL, after, before

UNBATCHED = replace(
    MODEL, inputs=(TensorSpec("x", "FP32", [2, 3]),), outputs=(TensorSpec("y", "FP32", [2, 3]),), max_batch_size=0
)


def same(output: Array, inputs: Mapping[str, Array]) -> Array:
    return output


class TestWithoutSteps:
    def test_everything_is_the_models(self) -> None:
        hooks, executor = ModelHooks(Hooks(), Path(), MODEL), FakeExecutor()
        assert (hooks.inputs, hooks.outputs, hooks.description) == (MODEL.inputs, MODEL.outputs, MODEL)
        assert hooks.around(executor) is executor
        assert hooks.durations is None

    def test_a_stream_of_answers_is_no_obstacle(self) -> None:
        ModelHooks(Hooks(), Path(), replace(MODEL, decoupled=True))


class TestSignatures:
    def test_callers_see_what_is_outermost(self) -> None:
        hooks = before(np.copy, datatype="INT32")
        assert hooks.inputs == (TensorSpec("x", "INT32", [1]),)
        assert hooks.description.inputs == MODEL.inputs
        hooks = after(same, datatype="INT64", dims=[7])
        assert hooks.outputs == hooks.description.outputs == (TensorSpec("y", "INT64", [7]),)

    def test_without_batches_the_first_dimension_is_that_of_rows(self) -> None:
        hooks = before(np.copy, UNBATCHED, datatype="INT32")
        assert hooks.before is not None
        assert hooks.before.takes == (TensorSpec("x", "INT32", [3]),)
        assert hooks.inputs == (TensorSpec("x", "INT32", [2, 3]),)
        assert after(same, UNBATCHED, dims=[5]).outputs == (TensorSpec("y", "FP32", [2, 5]),)

    @pytest.mark.parametrize("field", ["inputs", "outputs"])
    def test_a_scalar_has_none(self, field: str) -> None:
        scalar = replace(UNBATCHED, **{field: (TensorSpec("s", "FP32", []),)})  # type: ignore[arg-type]
        with pytest.raises(LoadError, match="process: tensor 's' is a scalar, and steps need a dimension of rows"):
            _ = before(np.copy, scalar) if field == "inputs" else after(same, scalar)

    @pytest.mark.parametrize("make", [before, after])
    def test_around_a_stream_there_can_be_none(self, make: type) -> None:
        with pytest.raises(LoadError, match="the model streams its answers, around which no steps can stand"):
            make(np.copy, replace(MODEL, decoupled=True))


class TestExecutors:
    def test_answer_with_what_the_last_step_makes(self) -> None:
        hooks, bare = after(lambda output, inputs: output + inputs["x"]), FakeExecutor()
        executor = hooks.around(bare)
        (answer,) = executor.execute([np.array([[1], [2]], np.float32)], [])
        assert np.asarray(answer).ravel().tolist() == [3, 6]
        assert hooks.durations is not None
        assert hooks.durations.read()["call"].count == 1

    def test_inputs_that_were_left_out_are_not_there(self) -> None:
        model = replace(MODEL, inputs=(*MODEL.inputs, TensorSpec("z", "FP32", [1], optional=True)))
        seen: list[list[str]] = []

        def note(output: Array, inputs: Mapping[str, Array]) -> Array:
            seen.append(list(inputs))
            return output

        class Two(FakeExecutor):
            def execute(self, inputs, requests):  # type: ignore[no-untyped-def]
                return super().execute(inputs[:1], requests)

        after(note, model).around(Two()).execute([np.ones((1, 1), np.float32), None], [])
        assert seen == [["x"]]

    def test_lay_their_answers_out_in_order(self) -> None:
        executor = after(lambda output, inputs: np.repeat(output, 4, 1)[:, ::2], dims=[2]).around(FakeExecutor())
        (answer,) = executor.execute([np.ones((3, 1), np.float32)], [])
        assert np.asarray(answer).flags.c_contiguous

    def test_are_otherwise_the_models(self) -> None:
        bare = FakeExecutor()
        executor = after(same).around(bare)
        assert isinstance(executor, HookedExecutor)
        assert executor.bare is bare
        assert executor.buffers is bare.buffers
        executor.terminate()
        executor.close()
        assert bare.terminations == 1
        assert bare.closed


class TestWarmUp:
    def test_counts_what_the_steps_take(self) -> None:
        hooks, executor = after(same), FakeExecutor()
        bare = warm_up("m", executor, MODEL, 8)
        warmed = hooks.warmed(executor, bare)
        assert bare.timing is not None
        assert warmed.timing is not None
        assert warmed.timing.one > bare.timing.one
        assert warmed.timing.full > bare.timing.full
        assert {len(run) for run in executor.runs} >= {1, 8}

    def test_is_as_it_was_without_them(self) -> None:
        hooks, executor = before(np.copy), FakeExecutor()
        warmup = warm_up("m", executor, MODEL, 8)
        assert hooks.warmed(executor, warmup) is warmup

    def test_leaves_a_model_alone_that_takes_no_sample(self) -> None:
        def fail(array: Array) -> Array:
            raise ArithmeticError

        hooks, executor = after(same), FakeExecutor(fail)
        warmup = warm_up("m", executor, MODEL, 8)
        assert hooks.warmed(executor, warmup) is warmup

    def test_finds_steps_that_do_not_give_what_they_declare(self) -> None:
        for call in (lambda output, inputs: output[:, :0], lambda output, inputs: output.astype(np.float64)):
            executor = FakeExecutor()
            with pytest.raises(LoadError, match=r"postprocess: output 'y' came as .* declare FP32 \[-1, 1\]"):
                after(call).warmed(executor, warm_up("m", executor, MODEL, 8))

    def test_finds_steps_that_fail(self) -> None:
        def fail(output: Array, inputs: Mapping[str, Array]) -> Array:
            raise ArithmeticError("secret")

        executor = FakeExecutor()
        with pytest.raises(LoadError, match=r"postprocess: a sample of zeros failed: ArithmeticError$"):
            after(fail).warmed(executor, warm_up("m", executor, MODEL, 8))

    def test_forgives_a_model_whose_answer_to_zeros_cannot_be_ranked(self, caplog: pytest.LogCaptureFixture) -> None:
        hooks = ModelHooks(Hooks((), (StepSpec("argmax"),)), Path(), MODEL)
        executor = FakeExecutor(lambda array: array * np.nan)
        warmup = warm_up("m", executor, MODEL, 8)
        assert hooks.warmed(executor, warmup).timing == warmup.timing
        assert "a warm-up sample of zeros failed: output 'y' of the model holds NaN" in caplog.text


def test_descriptions_are_those_of_any_model() -> None:
    assert isinstance(before(np.copy).description, ModelDescription)
