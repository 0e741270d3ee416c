"""Model configurations for tests, by what matters in them."""

from dataclasses import replace
from typing import Any

from guepard.core.model_config import DynamicBatching, ModelConfig, TimeoutPolicy
from guepard.core.tensor import TensorSpec


def model_config(**fields: Any) -> ModelConfig:
    """A model `m`, version 1, FP32 [1] `x` in and `y` out, batches of 8, one thread, unless `fields` say otherwise."""
    plain = ModelConfig(
        name="m",
        version="1",
        platform="test",
        backend="test",
        inputs=(TensorSpec("x", "FP32", [1]),),
        outputs=(TensorSpec("y", "FP32", [1]),),
        max_batch_size=8,
        instance_count=1,
        execution="thread",
        dynamic_batching=DynamicBatching(),
        timeout=TimeoutPolicy(),
        max_concurrency=4_096,
        idempotent=True,
        decoupled=False,
        parameters={},
    )
    return replace(plain, **fields)
