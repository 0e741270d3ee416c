"""What first runs show about a model: its time, whether its rows are independent, and that it cannot be tried."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guepard.backends.base import ModelSource
from guepard.backends.onnxruntime import OnnxRuntimeBackend
from guepard.core.model_config import ModelDescription, ModelPolicy
from guepard.core.tensor import TensorSpec
from guepard.engine import warmup
from guepard.engine.warmup import Warmup, paying_rows, warm_up
from tests.services import onnx_models
from tests.unit.engine.fake_executors import FakeExecutor


def description(dims: list[int] | None = None, datatype: str = "FP32", **fields: Any) -> ModelDescription:
    specs = (TensorSpec("x", datatype, dims or [4]),), (TensorSpec("y", datatype, dims or [4]),)
    return ModelDescription("test", "test", *specs, **{"max_batch_size": 8, "batch_verified": False} | fields)


def warmed(function: Callable[[Any], Any], **fields: Any) -> Warmup:
    return warm_up("m", FakeExecutor(function), description(**fields), 8)


def onnx_warmup(folder: Path, model: bytes, **policy: Any) -> Warmup:
    path = onnx_models.write_model(folder / "m.onnx", model)
    loaded = OnnxRuntimeBackend().load(ModelSource("m", "1", path, ModelPolicy(**policy)))
    return warm_up("m", loaded.executor(), loaded.description, loaded.description.max_batch_size)


class TestIndependentRows:
    @pytest.mark.parametrize(
        ("model", "independent"),
        [
            (onnx_models.double, True),
            (onnx_models.mlp, True),
            (onnx_models.masked_mean, True),
            (onnx_models.lookup, True),
            (onnx_models.two_outputs, True),
            (onnx_models.divide, True),
            (onnx_models.batch_mixing, False),
            (onnx_models.running_sum, False),
            (onnx_models.times_batch_maximum, False),
            (onnx_models.hidden_fixed_batch, False),
        ],
    )
    def test_real_models(self, tmp_path: Path, model: Callable[[], bytes], independent: bool) -> None:
        assert onnx_warmup(tmp_path, model()).rows_independent is independent

    @pytest.mark.parametrize("datatype", ["BYTES", "BOOL", "BF16", "FP16", "UINT8"])
    def test_datatypes_that_are_no_plain_floats(self, tmp_path: Path, datatype: str) -> None:
        assert onnx_warmup(tmp_path, onnx_models.identity(datatype)).rows_independent is True

    @pytest.mark.parametrize(
        "function",
        [
            lambda array: array - array.mean(axis=0),
            lambda array: array[::-1].copy(),
            lambda array: np.broadcast_to(array.max(axis=0), array.shape),
            lambda array: array.sum(axis=0, keepdims=True),
            lambda array: array / len(array),
            lambda array: array.cumsum(axis=0),
            lambda array: array[::-1].cumsum(axis=0)[::-1],
            lambda array: array.cumprod(axis=0),
            lambda array: array * array.max(axis=0),
            lambda array: array * array.min(axis=0),
            lambda array: np.maximum.accumulate(array, axis=0),
        ],
    )
    @pytest.mark.parametrize("datatype", ["FP32", "FP16", "INT64"])
    def test_rows_that_mix_are_noticed(self, function: Callable[[Any], Any], datatype: str) -> None:
        assert warmed(function, datatype=datatype).rows_independent is False

    def test_a_batch_that_is_refused_is_none(self) -> None:
        def one_only(array: Any) -> Any:
            if len(array) != 1:
                raise ValueError("one row only")
            return array

        warmup = warmed(one_only)
        assert warmup.rows_independent is False
        assert warmup.timing is not None

    def test_the_noise_of_another_kernel_is_no_difference(self) -> None:
        def noisy(array: Any) -> Any:
            return array * (1 + 1e-6 * len(array))

        assert warmed(noisy).rows_independent is True

    @pytest.mark.parametrize("datatype", ["INT32", "INT64"])
    def test_integers_that_mix_in_a_real_model(self, tmp_path: Path, datatype: str) -> None:
        for model in (onnx_models.running_sum, onnx_models.times_batch_maximum):
            assert onnx_warmup(tmp_path, model(datatype)).rows_independent is False

    def test_where_the_operator_insists_on_batches_a_warning_names_model_and_output(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING):
            onnx_warmup(tmp_path, onnx_models.running_sum(), max_batch_size=8)
        (record,) = caplog.records
        assert record.getMessage() == (
            "model m: rows of one batch influence each other in output 'y', so answers depend on who shares a batch; "
            "set max_batch_size to 0"
        )

    def test_where_he_is_right_nothing_is_said(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO):
            assert onnx_warmup(tmp_path, onnx_models.double(), max_batch_size=8).rows_independent is True
        assert not caplog.records

    def test_it_is_not_asked_where_it_is_known(self) -> None:
        assert warmed(lambda array: array - array.mean(), batch_verified=True).rows_independent is None
        assert warmed(lambda array: array, max_batch_size=0).rows_independent is None


class TestSamples:
    def test_one_row_a_full_batch_and_some_between_are_run(self) -> None:
        executor = FakeExecutor()
        warm_up("m", executor, description(batch_verified=True), 8)
        assert {len(run) // 4 for run in executor.runs} == {1, 4, 8}

    def test_a_model_without_batches_gets_its_dims(self) -> None:
        shapes = []

        def remember(array: Any) -> Any:
            shapes.append(array.shape)
            return array

        warmed(remember, max_batch_size=0, dims=[3, 2])
        assert set(shapes) == {(3, 2)}

    def test_free_dimensions_are_tried_until_one_is_taken(self) -> None:
        def at_least_a_hundred(array: Any) -> Any:
            if array.shape[1] < 100:
                raise ValueError("too short")
            return array

        assert warmed(at_least_a_hundred, dims=[-1]).timing is not None

    def test_a_model_that_takes_no_sample_is_served_cold_and_unbatched(self, caplog: pytest.LogCaptureFixture) -> None:
        def picky(array: Any) -> Any:
            raise ValueError("no zeros, please")

        with caplog.at_level(logging.WARNING):
            assert warmed(picky, dims=[-1]) == Warmup(None, None)
        assert "no zeros, please" in caplog.text

    def test_a_stream_is_run_to_its_end(self) -> None:
        ended = []

        class Stream(FakeExecutor):
            def execute_stream(self, inputs: Any, requests: Any) -> Any:
                yield from ([inputs[0]], [inputs[0]])
                ended.append(True)

        warm_up("m", Stream(), description(decoupled=True, batch_verified=True), 8)
        assert ended

    def test_the_time_of_a_full_batch_is_its_own(self) -> None:
        def slow_per_row(array: Any) -> Any:
            sum(range(20_000 * len(array)))
            return array

        timing = warmed(slow_per_row, batch_verified=True).timing
        assert timing is not None
        assert timing.full > 2 * timing.one > 0


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({1: 100}, 1),
        ({1: 100, 4: 400, 16: 1_600, 64: 6_400}, 1),
        ({1: 100, 4: 392, 16: 1_560, 64: 6_300}, 1),
        ({1: 100, 4: 340, 16: 1_350, 64: 5_400}, 4),
        ({1: 100, 4: 340, 16: 1_200, 64: 7_000}, 16),
        ({1: 100, 4: 110, 16: 130, 64: 200}, 64),
        ({1: 100, 4: 500, 16: 3_000, 64: 3_200}, 64),
    ],
)
def test_a_batch_is_as_large_as_makes_rows_cheaper(times: dict[int, int], expected: int) -> None:
    assert paying_rows(times) == expected


@pytest.mark.parametrize(
    ("run_ms", "largest", "full_ms"),
    [
        (lambda rows: 100 * rows, 4, 6_400),  # what 16 and 64 rows take is clear
        (lambda rows: 10 * rows, 64, 640),  # it is as clear, and cheap to see
        (lambda rows: 500, 64, 500),  # rows get cheaper
        (lambda rows: 300 + 20 * rows, 64, 1_580),
    ],
)
def test_long_runs_that_show_nothing_new_are_spared(
    monkeypatch: pytest.MonkeyPatch, run_ms: Callable[[int], int], largest: int, full_ms: int
) -> None:
    now = 0
    monkeypatch.setattr(warmup, "perf_counter_ns", lambda: now)

    def run(array: Any) -> Any:
        nonlocal now
        now += run_ms(len(array)) * 1_000_000
        return array

    executor = FakeExecutor(run)
    timing = warm_up("m", executor, description([1], max_batch_size=64, batch_verified=True), 64).timing
    assert timing is not None
    assert timing.full == full_ms * 1_000_000
    assert max(map(len, executor.runs)) == largest
