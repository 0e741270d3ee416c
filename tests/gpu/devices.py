"""Which providers there are for the tests on GPUs, and models that are loaded for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guepard.backends.base import LoadedModel, ModelSource
from guepard.backends.onnxruntime import OnnxRuntimeBackend
from guepard.backends.provider_availability import installed_runtime, why_absent
from guepard.core.engine_options import EngineOptions, OnnxRuntimeOptions, Precision
from guepard.core.model_config import InstanceGroup, ModelPolicy

NO_GPU = "needs an NVIDIA GPU and onnxruntime-gpu"

_CUDA = why_absent("cuda", [0], installed_runtime())
_TENSORRT = why_absent("tensorrt", [0], installed_runtime())

needs_cuda = pytest.mark.skipif(_CUDA is not None, reason=NO_GPU)
needs_tensorrt = pytest.mark.skipif(
    _CUDA is not None or _TENSORRT is not None, reason=NO_GPU if _CUDA is not None else f"needs TensorRT: {_TENSORRT}"
)


@contextmanager
def loaded(
    path: Path,
    *,
    batch: int | None = None,
    count: int = 1,
    limit: int = 0,
    precision: Precision | None = None,
    cache: Path | None = None,
    **options: Any,
) -> Iterator[LoadedModel]:
    policy = ModelPolicy(
        max_batch_size=batch,
        instance_group=InstanceGroup(count),
        engines=EngineOptions(onnxruntime=OnnxRuntimeOptions(**options)),
        gpu_memory_limit_bytes=limit,
    )
    model = OnnxRuntimeBackend().load(ModelSource("m", "1", path, policy, precision=precision, cache=cache))
    try:
        yield model
    finally:
        model.close()


def answers(model: LoadedModel, *inputs: Any) -> list[np.ndarray]:
    return [np.array(output) for output in model.executor().execute(inputs, [])]
