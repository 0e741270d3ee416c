"""Models as they are served: the MLP, and what else a case needs."""

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.models import MLP
from guepard.backends.base import Executor, Inputs, Outputs
from guepard.core.model_config import DynamicBatching, ModelConfig, ModelDescription, TimeoutPolicy
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array, TensorSpec

X = TensorSpec(MLP.input_name, "FP32", [30])
Y = TensorSpec(MLP.output_name, "FP32", [2])
TOKENS = tuple(TensorSpec(name, "INT64", [-1]) for name in ("input_ids", "attention_mask", "token_type_ids"))

CONFIG = ModelConfig(
    name=MLP.name,
    version="1",
    platform="onnxruntime_onnx",
    backend="onnxruntime",
    inputs=(X,),
    outputs=(Y,),
    max_batch_size=64,
    instance_count=1,
    execution="inline",
    dynamic_batching=DynamicBatching(),
    timeout=TimeoutPolicy(),
    max_concurrency=4_096,
    idempotent=True,
    decoupled=False,
    parameters={},
)


def config(**fields: Any) -> ModelConfig:
    """The MLP's, but for `fields`."""
    return replace(CONFIG, **fields)


def answers(rows: int) -> Array:
    """What the MLP gives for so many rows."""
    return np.random.default_rng(1).random((rows, 2), np.float32)


class ReadyAnswers:
    """An executor that has worked everything out before: what is left is the way there and back."""

    buffers = None

    def __init__(self) -> None:
        self._answers = answers(64)

    def execute(self, inputs: Inputs, requests: object) -> Outputs:
        array = inputs[0]
        assert array is not None
        return [self._answers[: array.shape[0]]]

    def execute_stream(self, inputs: Inputs, requests: object) -> Any:
        raise AssertionError("the MLP streams nothing")

    def terminate(self) -> None:
        pass

    def close(self) -> None:
        pass


class ReadyModel:
    """The model of such executors."""

    description = ModelDescription(CONFIG.platform, CONFIG.backend, CONFIG.inputs, CONFIG.outputs, 64)

    def executor(self) -> Executor:
        return ReadyAnswers()

    def wide_executor(self) -> None:
        return None

    def trim(self) -> None:
        pass

    def health(self) -> None:
        pass

    def close(self) -> None:
        pass


class Taken:
    """A served model that takes requests and answers none."""

    def __init__(self) -> None:
        self.config = CONFIG

    def infer(self, request: InferenceRequest) -> None:
        pass

    def cancel(self, request: InferenceRequest) -> None:
        pass
