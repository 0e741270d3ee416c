"""The model in Triton's Python backend."""

import sys
from pathlib import Path
from typing import Any

sys.path[:0] = (Path(__file__).parent / "paths").read_text().split()

import numpy as np  # noqa: E402
import triton_python_backend_utils as backend  # noqa: E402

from benchmarks.comparisons.assignment import read_assignment  # noqa: E402
from benchmarks.comparisons.engine import load  # noqa: E402

ASSIGNMENT = read_assignment()


class TritonPythonModel:
    def initialize(self, arguments: dict[str, str]) -> None:
        self._infer = load(ASSIGNMENT)

    def execute(self, requests: list[Any]) -> list[Any]:
        inputs = [backend.get_input_tensor_by_name(each, ASSIGNMENT.input_name).as_numpy() for each in requests]
        result = self._infer(np.concatenate(inputs) if len(inputs) > 1 else inputs[0])
        answers, first = [], 0
        for rows in inputs:
            part = result[first : first + len(rows)]
            answers.append(backend.InferenceResponse([backend.Tensor(ASSIGNMENT.output_name, part)]))
            first += len(rows)
        return answers
