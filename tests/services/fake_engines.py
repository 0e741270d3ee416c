"""Engines for tests of the choice between them: each does to one small product what its name says.

They have no model file to read. `install` makes them the engines of a backend, in this process and in trials.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import thread_time_ns
from typing import Any

import numpy as np

from guepard.backends import registry
from guepard.backends.base import Inputs, ModelSource, Outputs
from guepard.core.buffers import BufferPool
from guepard.core.engine_options import Precision
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array, TensorSpec

MS = 1_000_000
REFERENCE = "reference"

_WEIGHTS = np.random.default_rng(1).normal(size=(8, 5)).astype(np.float32)


def spend(duration_ns: int) -> None:
    """Have a CPU for so long. Tests with a clock of their own replace it."""
    end = thread_time_ns() + duration_ns
    while thread_time_ns() < end:
        pass


class FakeExecutor:
    buffers: BufferPool | None = None

    def __init__(self, row_ns: int, change: Callable[[Array], Array]) -> None:
        self._row_ns = row_ns
        self._change = change

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        (x,) = inputs
        assert x is not None
        spend(self._row_ns * len(x))
        return [self._change(x @ _WEIGHTS)]

    def terminate(self) -> None: ...

    def close(self) -> None: ...


class FakeModel:
    def __init__(self, engine: "FakeEngine", precision: str) -> None:
        self._engine = engine
        self._precision = precision
        self.description = ModelDescription(
            platform="fake",
            backend=engine.name,
            inputs=(TensorSpec("x", "FP32", [8]),),
            outputs=(TensorSpec("y", "FP32", [5]),),
            max_batch_size=8,
            engine=engine.name,
            precision=precision,
        )

    def executor(self) -> FakeExecutor:
        return FakeExecutor(self._engine.row_ns(self._precision), self._engine.change)

    def wide_executor(self) -> None: ...

    def trim(self) -> None: ...

    def health(self) -> None: ...

    def close(self) -> None: ...


class FakeEngine:
    """The reference: 3 ms a row."""

    name = REFERENCE

    def native_precisions(self) -> Sequence[Precision]:
        return ("f32",)

    def row_ns(self, precision: str) -> int:
        return 3 * MS

    def change(self, y: Array) -> Array:
        return y

    def load(self, source: ModelSource) -> FakeModel:
        return FakeModel(self, source.precision or "f32")


class Faster(FakeEngine):
    name = "faster"

    def row_ns(self, precision: str) -> int:
        return 1 * MS


class TwoPrecisions(FakeEngine):
    """Faster in BF16, a little off."""

    name = "two_precisions"

    def native_precisions(self) -> Sequence[Precision]:
        return ("bf16", "f32")

    def row_ns(self, precision: str) -> int:
        return MS // 2 if precision == "bf16" else 2 * MS

    def change(self, y: Array) -> Array:
        return y * np.float32(1.001)


class Slower(FakeEngine):
    name = "slower"

    def row_ns(self, precision: str) -> int:
        return 4 * MS


class Wrong(Faster):
    name = "wrong"

    def change(self, y: Array) -> Array:
        return np.roll(y, 1, axis=1)


class Nan(Faster):
    name = "nan"

    def change(self, y: Array) -> Array:
        y[-1, -1] = np.nan
        return y


class Raising(Faster):
    name = "raising"

    def change(self, y: Array) -> Array:
        raise ArithmeticError


class Refusing(Faster):
    name = "refusing"

    def load(self, source: ModelSource) -> FakeModel:
        logging.getLogger(__name__).error("Tanh is not there")
        raise LoadError("it lacks the operator Tanh")


class Hanging(TwoPrecisions):
    """While it compiles for BF16."""

    name = "hanging"

    def load(self, source: ModelSource) -> FakeModel:
        if source.precision == "bf16":
            time.sleep(1_000)
        return FakeModel(self, "f32")


class Crashing(TwoPrecisions):
    """While it executes in BF16."""

    name = "crashing"

    def load(self, source: ModelSource) -> FakeModel:
        if source.precision == "bf16":
            os.kill(os.getpid(), signal.SIGILL)
        return FakeModel(self, "f32")


class CrashingAtOnce(FakeEngine):
    name = "crashing_at_once"

    def load(self, source: ModelSource) -> FakeModel:
        os.kill(os.getpid(), signal.SIGILL)
        raise AssertionError


class Swelling(Faster):
    name = "swelling"

    def load(self, source: ModelSource) -> FakeModel:
        self.kept = [np.ones(1 << 22) for _ in range(8)]
        time.sleep(1_000)
        raise AssertionError


class Fickle(Faster):
    """Loads in a trial, and not in the process that imported the tests."""

    name = "fickle"

    def load(self, source: ModelSource) -> FakeModel:
        if "pytest" in sys.modules:
            raise LoadError("its driver has gone")
        return super().load(source)


class Reshaping(Faster):
    """Says that its outputs are others."""

    name = "reshaping"

    def load(self, source: ModelSource) -> FakeModel:
        model = super().load(source)
        model.description = replace(model.description, outputs=(TensorSpec("z", "FP32", [5]),))
        return model


class Greedy(Faster):
    """Quick, with more CPUs than it was given."""

    name = "greedy"


ENGINES: dict[str, Any] = {
    each.name: each
    for each in (
        FakeEngine, Faster, TwoPrecisions, Slower, Wrong, Nan, Raising, Refusing, Hanging, Crashing, CrashingAtOnce,
        Swelling, Fickle, Reshaping, Greedy,
    )
}  # fmt: skip


def install(monkeypatch: Any, *engines: str) -> None:
    """Have models of the backend "reference" executed by it or by one of `engines`. `monkeypatch` is pytest's."""
    for name, each in ENGINES.items():
        monkeypatch.setitem(registry._HOMES, name, (__name__, each.__name__))
    monkeypatch.setitem(registry.ENGINES, REFERENCE, (REFERENCE, *engines))
    for engine in engines:
        monkeypatch.setitem(registry._MODULES, engine, "numpy")
