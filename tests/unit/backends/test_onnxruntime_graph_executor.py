"""Executions as CUDA graphs, on the CPU: what they are filled up to, where they read and write, whose rows they give.

The CPU captures nothing, so what is shown is the way of the data; the graphs themselves are tested on a GPU.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from guepard.backends.onnxruntime_executor import OnnxRuntimeExecutor
from guepard.backends.onnxruntime_graph_executor import GraphExecutor, batch_sizes, check_graph
from guepard.core.errors import InputError, LoadError
from guepard.core.model_config import ModelDescription
from guepard.core.padding import PaddingRules
from guepard.core.tensor import TensorSpec
from tests.services import onnx_models


def described(
    dims: Sequence[int],
    batch: int = 8,
    padding: PaddingRules | None = None,
    datatype: str = "FP32",
    verified: bool = True,
) -> ModelDescription:
    return ModelDescription(
        "onnxruntime_onnx",
        "onnxruntime",
        (TensorSpec("x", datatype, dims),),
        (TensorSpec("y", datatype, dims),),
        batch,
        batch_verified=verified,
        padding=padding,
    )


class Session:
    """A real session that notes with which graph it is run; None: without binding."""

    def __init__(self, model: bytes) -> None:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        self.real = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.io_binding = self.real.io_binding
        self._sess = self
        self.graphs: list[str] = []
        self.fails = False

    def run(self, *arguments: Any) -> Any:
        self.graphs.append(arguments[2].get_run_config_entry("gpu_graph_id"))
        return self.real.run(*arguments)

    def run_with_iobinding(self, binding: Any, options: Any) -> None:
        self.graphs.append(options.get_run_config_entry("gpu_graph_id"))
        if self.fails:
            raise RuntimeError("CUDA failure 900: operation not permitted when stream is capturing")
        self.real._sess.run_with_iobinding(binding, options)


def executor_of(session: Session, description: ModelDescription) -> GraphExecutor:
    return GraphExecutor(session, "m", description, device="cpu")


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    ("largest", "sizes"), [(0, (1,)), (1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))]
)
def test_what_batches_are_filled_up_to(largest: int, sizes: tuple[int, ...]) -> None:
    assert batch_sizes(largest) == sizes


class TestRuns:
    def test_every_batch_gives_its_own_rows(self) -> None:
        session = Session(onnx_models.double())
        executor = executor_of(session, described([4]))
        for rows in (1, 3, 4, 2, 7, 8, 3):
            x = np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)
            (y,) = executor.execute([x], [])
            assert np.array_equal(y, 2 * x)
        assert session.graphs == ["1", "2", "2", "3", "4", "4", "2"]  # by sizes 1, 4, 4, 2, 8, 8, 4

    def test_outputs_are_handed_over(self) -> None:
        executor = executor_of(Session(onnx_models.double()), described([4]))
        (first,) = executor.execute([ones(2, 4)], [])
        (second,) = executor.execute([3 * ones(2, 4)], [])
        assert (first.tolist(), second.tolist()) == ([[2] * 4] * 2, [[6] * 4] * 2)
        first[:] = 9
        assert executor.execute([ones(2, 4)], [])[0].tolist() == [[2] * 4] * 2

    def test_lengths_in_buckets_have_a_graph_each(self) -> None:
        padding = PaddingRules(inputs={"x": 0}, buckets=(4, 8))
        session = Session(onnx_models.identity("FP32", ["n", "m"]))
        executor = executor_of(session, described([-1], 2, padding))
        for rows, length in ((1, 4), (1, 8), (2, 4), (1, 4)):
            assert executor.execute([ones(rows, length)], [])[0].shape == (rows, length)
        # The first run of each shape is without a graph: it shows how large the outputs are.
        assert session.graphs == ["-1", "1", "-1", "2", "-1", "3", "1"]

    @pytest.mark.parametrize("shape", [(1, 5), (3, 4), (0, 4)])
    def test_what_is_not_expected_runs_without(self, shape: tuple[int, int]) -> None:
        padding = PaddingRules(inputs={"x": 0}, buckets=(4, 8))
        session = Session(onnx_models.identity("FP32", ["n", "m"]))
        executor = executor_of(session, described([-1], 2, padding))
        assert executor.execute([ones(*shape)], [])[0].shape == shape
        assert session.graphs == ["-1"]

    def test_a_model_without_a_batch_has_one(self) -> None:
        session = Session(onnx_models.fixed_batch())
        executor = executor_of(session, described([1, 4], 0))
        for value in (1, 5):
            assert executor.execute([value * ones(1, 4)], [])[0].tolist() == [[2 * value] * 4]
        assert session.graphs == ["1", "1"]

    def test_each_thread_captures_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A graph that one thread captured is not there on another, so both first runs have the gate alone."""
        taken: list[str] = []

        class Gate:
            def __init__(self, way: str) -> None:
                self.way = way

            def __enter__(self) -> None:
                taken.append(self.way)

            def __exit__(self, *_: object) -> None: ...

        class Ways:
            shared = staticmethod(lambda: Gate("shared"))
            alone = staticmethod(lambda: Gate("alone"))

        monkeypatch.setattr("guepard.backends.onnxruntime_graph_executor.GATE", Ways)
        executor = executor_of(Session(onnx_models.double()), described([4]))
        for _ in range(2):
            executor.execute([ones(1, 4)], [])
        with ThreadPoolExecutor(1) as pool:
            for _ in range(2):
                pool.submit(executor.execute, [ones(1, 4)], []).result()
        assert taken == ["alone", "shared", "alone", "shared"]

    def test_ending_early_does_nothing(self) -> None:
        executor = executor_of(Session(onnx_models.double()), described([4]))
        executor.terminate()
        assert executor.execute([ones(1, 4)], [])[0].tolist() == [[2] * 4]


class TestFailures:
    def test_a_graph_that_fails_is_given_up(self, caplog: pytest.LogCaptureFixture) -> None:
        session = Session(onnx_models.double())
        executor = executor_of(session, described([4]))
        session.fails = True
        for _ in range(2):
            assert executor.execute([ones(1, 4)], [])[0].tolist() == [[2] * 4]
        assert session.graphs == ["1", "-1", "-1"]
        assert caplog.text.count("its CUDA graph failed, so it runs without") == 1

    def test_what_the_caller_sent_wrong_does_not_end_graphs(self) -> None:
        session = Session(onnx_models.double())
        executor = executor_of(session, described([-1], 8, PaddingRules(inputs={"x": 0}, buckets=(3, 4))))
        with pytest.raises(InputError):
            executor.execute([ones(1, 3)], [])  # the model takes 4
        assert executor.execute([ones(1, 4)], [])[0].tolist() == [[2] * 4]
        assert session.graphs[-1] == "1"
        assert isinstance(executor, OnnxRuntimeExecutor)


class TestCheck:
    def test_few_shapes_pass(self) -> None:
        check_graph(described([4]), one_shape=False)
        check_graph(described([-1], 8, PaddingRules(inputs={"x": 0}, buckets=(16, 64))), one_shape=False)
        check_graph(described([1, 4], 0), one_shape=True)
        check_graph(described([4], 1), one_shape=True)

    @pytest.mark.parametrize(
        ("description", "one_shape", "message"),
        [
            (described([-1]), False, r"input 'x' is \[-1\]; fix it in the model, or write padding.buckets"),
            (described([-1], 8, PaddingRules(inputs={"x": 0})), False, r"or write padding.buckets"),
            (described([-1], 8, PaddingRules(inputs={"z": 0}, buckets=(4,))), False, r"input 'x'"),
            (described([-1], 1, PaddingRules(inputs={"x": 0}, buckets=(4,))), True, r"input 'x'.*fix it in the model$"),
            (described([4]), True, r"max_batch_size is 8; write max_batch_size: 1, or cuda.enable_cuda_graph"),
            (described([4], verified=False), False, r"takes your word that rows.*write max_batch_size"),
            (described([1], datatype="BYTES"), False, r"cannot take BYTES and BF16"),
            (
                described([-1], 64, PaddingRules(inputs={"x": 0}, buckets=tuple(range(1, 6)))),
                False,
                r"7 batch sizes and 5 lengths are 35 graphs, and 32 are kept; name fewer padding.buckets",
            ),
        ],
    )
    def test_what_a_graph_cannot_hold(self, description: ModelDescription, one_shape: bool, message: str) -> None:
        with pytest.raises(LoadError, match=message):
            check_graph(description, one_shape=one_shape)

    def test_tensorrt_needs_outputs_of_known_shape(self) -> None:
        loose = ModelDescription("p", "b", (TensorSpec("x", "FP32", [4]),), (TensorSpec("y", "FP32", [-1]),), 1)
        with pytest.raises(LoadError, match=r"outputs of known shape, and 'y' is \[-1\]"):
            check_graph(loose, one_shape=True)
        check_graph(loose, one_shape=False)
