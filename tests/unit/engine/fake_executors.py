"""Executors and a model for tests of the engine: small, and told by the test what to do."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from guepard.backends.base import Inputs, Outputs
from guepard.core.buffers import BufferPool
from guepard.core.errors import Cancelled
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest
from guepard.core.tensor import TensorSpec


class FakeExecutor:
    """Runs `function` on the first input, doubling it by default. `runs` lists the rows of every execution.

    One that was told to terminate raises Cancelled at the end of the run, if `can_terminate`.
    """

    buffers: BufferPool | None = None

    def __init__(self, function: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        self.function = function or (lambda array: array * 2)
        self.runs: list[list[float]] = []
        self.closed = False
        self.can_terminate = False
        self.terminations = 0

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        (array,) = inputs
        assert array is not None
        self.runs.append(array.reshape(-1).tolist())
        before = self.terminations
        outputs = [self.function(array)]
        if self.can_terminate and self.terminations > before:
            raise Cancelled("ended")
        return outputs

    def execute_stream(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Iterator[Outputs]:
        (array,) = inputs
        assert array is not None
        for _ in range(int(array[0, 0])):
            yield self.execute(inputs, requests)

    def terminate(self) -> None:
        self.terminations += 1

    def close(self) -> None:
        self.closed = True


class FakeModel:
    def __init__(self, executor: FakeExecutor, wide: FakeExecutor | None = None) -> None:
        specs = (TensorSpec("x", "FP32", [1]),), (TensorSpec("y", "FP32", [1]),)
        self.description = ModelDescription("test", "test", *specs, max_batch_size=8)
        self._executor = executor
        self._wide = wide
        self.closed = False

    def executor(self) -> FakeExecutor:
        return self._executor

    def wide_executor(self) -> FakeExecutor | None:
        return self._wide

    def trim(self) -> None:
        """Nothing."""

    def health(self) -> None:
        """Always well."""

    def close(self) -> None:
        self.closed = True


def fail_negative(array: np.ndarray) -> np.ndarray:
    """Doubles; raises when any row is negative."""
    if (array < 0).any():
        raise ArithmeticError("a negative row")
    return array * 2
