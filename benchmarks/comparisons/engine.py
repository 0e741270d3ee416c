"""The inference that every peer does: one ONNX Runtime session with the options that all of them share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.comparisons.assignment import Assignment

Array = NDArray[Any]


def load(assignment: Assignment) -> Callable[[Array], Array]:
    """A function from rows of input to rows of output, warmed up once. Any thread may call it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = assignment.threads
    options.inter_op_num_threads = 1
    # A thread that spins while it waits takes its core from the server, and from the client beside it.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(assignment.file, options, providers=["CPUExecutionProvider"])
    outputs = [assignment.output_name]

    def infer(rows: Array) -> Array:
        (result,) = session.run(outputs, {assignment.input_name: rows})
        found: Array = result
        return found

    infer(np.zeros((1, *assignment.input_shape), assignment.input_dtype))
    return infer
