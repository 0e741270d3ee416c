"""The model as an MLServer runtime."""

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

from benchmarks.comparisons.assignment import read_assignment
from benchmarks.comparisons.engine import load

ASSIGNMENT = read_assignment()


class ReferenceRuntime(MLModel):
    async def load(self) -> bool:
        self._infer = load(ASSIGNMENT)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        rows = NumpyCodec.decode_input(payload.inputs[0])
        result = self._infer(np.ascontiguousarray(rows, ASSIGNMENT.input_dtype))
        output = NumpyCodec.encode_output(ASSIGNMENT.output_name, result)
        return InferenceResponse(model_name=self.name, outputs=[output])
