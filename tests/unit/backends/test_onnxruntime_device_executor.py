"""Executions with bound inputs and outputs, on the CPU's memory: the same answers, errors and ownership as without."""

import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper

from guepard.backends.onnxruntime_device_executor import DeviceExecutor, can_bind
from guepard.backends.onnxruntime_executor import OnnxRuntimeExecutor
from guepard.core.errors import Cancelled, InputError, ModelError
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.response import NOBODY
from guepard.core.tensor import TensorSpec
from tests.services import onnx_models
from tests.services.onnx_models import build, tensor

X4, Y4 = TensorSpec("x", "FP32", [4]), TensorSpec("y", "FP32", [4])


def described(inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], batch: int = 64) -> ModelDescription:
    return ModelDescription("onnxruntime_onnx", "onnxruntime", inputs, outputs, batch)


def session_of(model: bytes) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def both(model: bytes, description: ModelDescription) -> tuple[DeviceExecutor, OnnxRuntimeExecutor]:
    session = session_of(model)
    return DeviceExecutor(session, "m", description), OnnxRuntimeExecutor(session, "m", description)


def one(dims: list[int], datatype: str = "FP32", batch: int = 64) -> ModelDescription:
    """x → y, both of these dimensions."""
    return described((TensorSpec("x", datatype, dims),), (TensorSpec("y", datatype, dims),), batch)


def doubling(batch: int = 64) -> DeviceExecutor:
    return both(onnx_models.double(), described((X4,), (Y4,), batch))[0]


@pytest.mark.parametrize("rows", [0, 1, 7, 64])
def test_the_answers_are_those_of_a_plain_run(rows: int) -> None:
    bound, plain = both(onnx_models.mlp(), described((TensorSpec("x", "FP32", [30]),), (TensorSpec("y", "FP32", [2]),)))
    x = np.random.default_rng(0).normal(size=(rows, 30)).astype(np.float32)
    (found,), (expected,) = bound.execute([x], []), plain.execute([x], [])
    assert (found.shape, found.dtype, found.tobytes()) == (expected.shape, expected.dtype, expected.tobytes())


def test_several_outputs_in_their_order() -> None:
    outputs = (TensorSpec("total", "INT64", []), TensorSpec("negated", "INT64", [4]))
    bound, plain = both(onnx_models.two_outputs(), described((TensorSpec("x", "INT64", [4]),), outputs))
    x = np.arange(12).reshape(3, 4)
    for found, expected in zip(bound.execute([x], []), plain.execute([x], []), strict=True):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("datatype", ["BOOL", "UINT8", "INT8", "UINT16", "INT64", "FP16", "FP32", "FP64"])
def test_every_plain_datatype(datatype: str) -> None:
    spec = TensorSpec("x", datatype, [3])
    bound, _ = both(onnx_models.identity(datatype, ["n", 3]), described((spec,), (TensorSpec("y", datatype, [3]),)))
    x = np.array([[0, 1, 1], [1, 0, 0]]).astype(spec.datatype.dtype)
    (found,) = bound.execute([x], [])
    assert (found.dtype, found.tobytes()) == (x.dtype, x.tobytes())


def test_texts_and_brain_floats_cannot_be_bound() -> None:
    assert can_bind(described((X4,), (Y4,)))
    for datatype in ("BYTES", "BF16"):
        assert not can_bind(described((TensorSpec("x", datatype, [1]),), (Y4,)))
        assert not can_bind(described((X4,), (TensorSpec("y", datatype, [1]),)))


def test_inputs_may_lie_anyhow_and_stay_as_they_are() -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2).T
    x.flags.writeable = False
    (found,) = doubling().execute([x], [])
    assert np.array_equal(found, 2 * x)


@pytest.mark.parametrize("dims", [[4], [-1]])
def test_outputs_are_handed_over(dims: list[int]) -> None:
    """Bound to arrays of ours, and left to the engine: the next run writes neither."""
    bound, _ = both(onnx_models.identity("FP32", ["n", "m"]), one(dims))
    x = np.ones((2, 4), np.float32)
    (first,) = bound.execute([x], [])
    (second,) = bound.execute([3 * x], [])
    assert np.array_equal(first, x)
    assert np.array_equal(second, 3 * x)
    first[:] = 9
    assert np.array_equal(bound.execute([x], [])[0], x)
    assert np.array_equal(second, 3 * x)


def test_outputs_outlive_the_session() -> None:
    bound = doubling()
    (found,) = bound.execute([np.ones((1, 4), np.float32)], [])
    bound.close()
    del bound
    assert found.tolist() == [[2, 2, 2, 2]]


def test_inputs_are_let_go() -> None:
    bound = doubling()
    x = np.ones((1, 4), np.float32)
    finished = threading.Event()

    class Watched(np.ndarray):
        def __del__(self) -> None:
            finished.set()

    bound.execute([x.view(Watched)], [])
    assert finished.wait(10)


def test_a_model_without_a_batch() -> None:
    free, _ = both(onnx_models.double(), one([-1, 4], batch=0))
    assert free.execute([np.ones((3, 4), np.float32)], [])[0].shape == (3, 4)
    fixed, _ = both(onnx_models.fixed_batch(), one([1, 4], batch=0))
    assert fixed.execute([np.ones((1, 4), np.float32)], [])[0].tolist() == [[2, 2, 2, 2]]
    scalar, _ = both(onnx_models.identity("FP32", []), one([], batch=0))
    assert scalar.execute([np.array(3, np.float32)], [])[0] == 3


class TestFailures:
    def test_an_argument_that_is_refused_is_the_callers(self, caplog: pytest.LogCaptureFixture) -> None:
        node = helper.make_node("Gather", ["table", "x"], ["y"])
        model = build(
            [node],
            [tensor("x", "INT64", ["n", 1])],
            [tensor("y", "FP32", ["n", 1])],
            {"table": np.arange(5, dtype=np.float32)},
        )
        bound, plain = both(model, described((TensorSpec("x", "INT64", [1]),), (TensorSpec("y", "FP32", [1]),)))
        bad = np.array([[99]])
        errors = []
        for executor in (bound, plain):
            with pytest.raises(InputError) as caught:
                executor.execute([bad], [])
            errors.append(str(caught.value))
        assert errors[0] == errors[1]
        assert "outputs are no longer bound" not in caplog.text
        assert bound.execute([np.array([[3]])], [])[0].tolist() == [[3]]

    def test_a_failure_of_the_model(self) -> None:
        class Failing:
            @property
            def _sess(self) -> Any:
                return self

            def io_binding(self) -> Any:
                return session_of(onnx_models.double()).io_binding()

            def run_with_iobinding(self, binding: Any, options: Any) -> None:
                raise RuntimeError("Error in execution: out of memory")

            def run(self, *_: Any) -> None:
                raise RuntimeError("[ONNXRuntimeError] : 1 : FAIL : out of memory")

        executor = DeviceExecutor(Failing(), "m", described((X4,), (Y4,)))
        with pytest.raises(ModelError, match="server's log says why"):
            executor.execute([np.ones((1, 4), np.float32)], [])

    def test_an_output_that_is_not_as_declared_is_found_out_once(self, caplog: pytest.LogCaptureFixture) -> None:
        description = described((TensorSpec("x", "FP32", [-1]),), (TensorSpec("y", "FP32", [3]),))
        bound, _ = both(onnx_models.identity("FP32", ["n", None]), description)
        x = np.ones((2, 4), np.float32)
        for _ in range(2):
            assert np.array_equal(bound.execute([x], [])[0], x)
        assert caplog.text.count("outputs are no longer bound ahead") == 1

    def test_an_execution_that_nobody_wants_ends_and_the_next_goes_on(self) -> None:
        bound = doubling()
        request = InferenceRequest([], NOBODY, 0)
        request.state = RequestState.RELEASED
        bound.terminate()
        with pytest.raises(Cancelled):
            bound.execute([np.ones((1, 4), np.float32)], [request])
        assert bound.execute([np.ones((1, 4), np.float32)], [])[0].tolist() == [[2, 2, 2, 2]]


def test_a_file_is_served_the_same(tmp_path: Path) -> None:
    file = onnx_models.write_model(tmp_path / "m.onnx", onnx_models.double())
    session = ort.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    executor = DeviceExecutor(session, "m", described((X4,), (Y4,)))
    x = np.ones((2, 4), np.float32)
    assert np.array_equal(next(iter(executor.execute_stream([x], [])))[0], 2 * x)


def test_what_ends_while_it_runs_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    class Ended:
        """A session whose run is told to end, as from another thread."""

        @property
        def _sess(self) -> Any:
            return self

        def io_binding(self) -> Any:
            return session_of(onnx_models.double()).io_binding()

        def run(self, *_: Any) -> None:
            raise AssertionError("it must not run again")

        def run_with_iobinding(self, binding: Any, options: Any) -> None:
            options.terminate = True
            raise RuntimeError("Exiting due to terminate flag being set to true.")

    executor = DeviceExecutor(Ended(), "m", described((X4,), (Y4,)))
    with caplog.at_level(logging.INFO), pytest.raises(Cancelled):
        executor.execute([np.ones((1, 4), np.float32)], [])
