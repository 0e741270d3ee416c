"""`backends/onnxruntime_executor.py`: the MLP on a session of its own, and the conversion of texts."""

from typing import Any

import numpy as np

from benchmarks.micro.stage.models import X, Y
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from benchmarks.serving.raw_engine import open_session
from guepard.backends.onnxruntime_executor import executor_for
from guepard.core.model_config import ModelDescription
from guepard.core.tensor import TensorSpec


class Echo:
    """A session that gives back what it is given."""

    def run(self, names: list[str], inputs: dict[str, Any], options: Any) -> list[Any]:
        return list(inputs.values())


def cases() -> list[Case]:
    mlp = executor_for(open_session(MLP), MLP.name, ModelDescription("onnxruntime_onnx", "onnxruntime", (X,), (Y,), 64))
    text = TensorSpec("text", "BYTES", [1])
    echo = executor_for(Echo(), "echo", ModelDescription("onnxruntime_onnx", "onnxruntime", (text,), (text,), 64))
    words = np.array([[b"a word of %d" % index] for index in range(32)], object)
    rows = {size: MLP.sample(size) for size in (1, 8, 64)}
    return [
        *[Case(f"MLP, {size} rows", lambda size=size: mlp.execute((rows[size],), ())) for size in rows],  # type: ignore[misc]
        Case("32 texts in and out", lambda: echo.execute((words,), ())),
    ]
