"""The model as a BentoML service. Its batches are concatenated rows."""

import bentoml
import numpy as np

from benchmarks.comparisons.assignment import read_assignment
from benchmarks.comparisons.engine import load

ASSIGNMENT = read_assignment()
BATCHING = {"batchable": True, "batch_dim": 0, "max_batch_size": ASSIGNMENT.max_batch_size, "max_latency_ms": 10_000}


@bentoml.service(
    workers=ASSIGNMENT.instances,
    traffic={"timeout": 60},
    logging={"access": {"enabled": False}},
    metrics={"enabled": False},
)
class ModelService:
    def __init__(self) -> None:
        self._infer = load(ASSIGNMENT)

    @bentoml.api(**(BATCHING if ASSIGNMENT.max_batch_size > 1 else {}))
    def predict(self, data: np.ndarray) -> np.ndarray:
        return self._infer(data.astype(ASSIGNMENT.input_dtype, copy=False))
