"""The model as a TorchServe handler: JSON in, JSON out; bytes in, bytes out."""

from typing import Any

import numpy as np

from benchmarks.comparisons.assignment import read_assignment
from benchmarks.comparisons.engine import load

ASSIGNMENT = read_assignment()
INFER = load(ASSIGNMENT)


def handle(data: list[dict[str, Any]] | None, context: Any) -> list[Any] | None:
    """One answer for each item. Without data it is only asked to get ready."""
    if data is None:
        return None
    bodies = [item.get("body") or item["data"] for item in data]
    if isinstance(bodies[0], (bytes, bytearray)):
        rows = np.frombuffer(b"".join(bodies), ASSIGNMENT.input_dtype).reshape(len(bodies), *ASSIGNMENT.input_shape)
        return [row.tobytes() for row in INFER(rows)]
    rows = np.array([body["data"] if isinstance(body, dict) else body for body in bodies], ASSIGNMENT.input_dtype)
    return [{"output": row} for row in INFER(rows).tolist()]
