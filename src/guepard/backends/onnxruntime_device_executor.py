"""Runs batches on a session of ONNX Runtime whose model is on a GPU, with inputs and outputs bound before each run.

Inputs are bound where they lie, and ONNX Runtime copies them; from memory that is pinned the GPU does that by itself.
Outputs whose shape is declared are bound to fresh arrays, so that they are copied once and straight to where they stay;
others are left to ONNX Runtime. Each executor has a session of its own, and so its own streams, arena and graphs.

Source: ONNX Runtime, "I/O Binding" of its Python API.
"""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import OrtValue

from guepard.backends.base import Inputs, Outputs
from guepard.backends.capture_gate import GATE
from guepard.backends.cuda_runtime import HostMemory
from guepard.backends.onnxruntime_executor import OnnxRuntimeExecutor
from guepard.core.buffers import BufferPool
from guepard.core.errors import Cancelled
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array, TensorSpec

_LOGGER = logging.getLogger("guepard.backends.onnxruntime")
_UNWANTED = "the execution was ended, as nobody waited for it any more"
# Values and bindings are ONNX Runtime's own. What its Python layer puts around them takes longer than they do.
_CPU = ort.OrtDevice.make("cpu", 0)._get_c_device()
_from_numpy = OrtValue.ortvalue_from_numpy


def can_bind(description: ModelDescription) -> bool:
    """Whether all tensors are such as numpy holds as they are: texts and BF16 cannot be bound."""
    return all(spec.plain for spec in (*description.inputs, *description.outputs))


class DeviceExecutor(OnnxRuntimeExecutor):
    """`host_memory` pins memory, for whoever makes `buffers`, which inputs are gathered in; None: nothing can."""

    __slots__ = ("_binding", "_preallocates", "_run_bound", "_shapes", "buffers", "host_memory")

    buffers: BufferPool | None

    def __init__(
        self, session: Any, model: str, description: ModelDescription, host_memory: HostMemory | None = None
    ) -> None:
        super().__init__(session, model, description)
        self.buffers = None
        self.host_memory = host_memory
        self._binding = session.io_binding()._iobinding
        self._run_bound = session._sess.run_with_iobinding
        self._preallocates = True
        self._shapes = [declared_shape(spec, self._batched) for spec in description.outputs]

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        if self._options.terminate:  # meant for an earlier run, or for this one: the requests know
            self._options = ort.RunOptions()
            if requests and all(request.is_released for request in requests):
                raise Cancelled(_UNWANTED)
        return self._run_arrays([np.asarray(array, order="C") for array in inputs], requests)

    def _run_arrays(self, arrays: Sequence[Array], requests: Sequence[InferenceRequest]) -> Outputs:
        with GATE.shared():
            return self._run_binding(arrays, requests)

    def _run_binding(self, arrays: Sequence[Array], requests: Sequence[InferenceRequest]) -> Outputs:
        binding, options = self._binding, self._options
        made: list[Array | None] = []
        try:
            for name, array in zip(self._input_names, arrays, strict=True):
                binding.bind_ortvalue_input(name, _from_numpy(array, _CPU))
            rows = len(arrays[0]) if self._batched else 0
            for spec, shape in zip(self._outputs, self._shapes, strict=True):
                if shape is None or not self._preallocates:
                    made.append(None)
                    binding.bind_output(spec.name, _CPU)
                    continue
                array = np.empty((rows, *shape) if self._batched else shape, spec.datatype.dtype)
                made.append(array)
                binding.bind_ortvalue_output(spec.name, _from_numpy(array, _CPU))
            self._run_bound(binding, options)
            values = binding.get_outputs()  # by index: to iterate takes 40 µs
            return [values[place].numpy() if array is None else array for place, array in enumerate(made)]
        except Exception:
            if options.terminate:
                raise Cancelled(_UNWANTED) from None
            return self._run_plainly(arrays, requests)
        finally:
            # What stays bound would be kept alive, and written to by the next run.
            binding.clear_binding_inputs()
            binding.clear_binding_outputs()

    def _run_plainly(self, arrays: Sequence[Array], requests: Sequence[InferenceRequest]) -> Outputs:
        """Once more without a binding, whose failures do not say whose fault they are. Raises: as `execute`.

        If that succeeds, an output does not have the shape that the model declares.
        """
        outputs = super().execute(arrays, requests)
        if self._preallocates:
            self._preallocates = False
            _LOGGER.warning(
                "model %s: an output has another shape than the model declares, so outputs are no longer bound ahead",
                self._model,
            )
        return outputs


def declared_shape(spec: TensorSpec, batched: bool) -> tuple[int, ...] | None:
    """Without the batch; None where a dimension is free. A tensor without dimensions is left to ONNX Runtime."""
    return None if spec.free or not (spec.dims or batched) else spec.dims
