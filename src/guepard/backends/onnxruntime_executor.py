"""Runs batches on a session of ONNX Runtime. On the hot path: no look-ups, no copies beyond ONNX Runtime's own."""

import ctypes
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort

from guepard.backends.base import Inputs, Outputs
from guepard.backends.onnxruntime_errors import run_error
from guepard.core.buffers import BufferPool
from guepard.core.errors import Cancelled, GuepardError, InputError
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array, TensorSpec

_LOGGER = logging.getLogger("guepard.backends.onnxruntime")
_ONNX_BFLOAT16 = 16  # TensorProto.DataType.BFLOAT16
_UNWANTED = "the execution was ended, as nobody waited for it any more"


class OnnxRuntimeExecutor:
    """Executes models whose tensors numpy holds as they are. Executors share one session: its Run is thread-safe."""

    __slots__ = (
        "_batched",
        "_input_names",
        "_inputs",
        "_model",
        "_options",
        "_output_names",
        "_outputs",
        "_run",
        "_shapes_are_free",
    )

    buffers: BufferPool | None = None

    def __init__(self, session: Any, model: str, description: ModelDescription) -> None:
        self._run: Callable[[list[str], dict[str, Any], Any], list[Any]] = session.run
        self._options = ort.RunOptions()
        self._model = model
        self._batched = description.max_batch_size > 0
        self._inputs = description.inputs
        self._outputs = description.outputs
        self._input_names = [spec.name for spec in description.inputs]
        self._output_names = [spec.name for spec in description.outputs]
        self._shapes_are_free = any(spec.free for spec in description.inputs)

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        options = self._options
        if options.terminate:  # meant for an earlier run, or for this one: the requests know
            options = self._options = ort.RunOptions()
            if requests and all(request.is_released for request in requests):
                raise Cancelled(_UNWANTED)
        try:
            return self._run(self._output_names, dict(zip(self._input_names, inputs, strict=True)), options)
        except Exception as error:
            if options.terminate:
                raise Cancelled(_UNWANTED) from None
            raise self._failure(error) from None

    def execute_stream(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Iterator[Outputs]:
        yield self.execute(inputs, requests)

    def terminate(self) -> None:
        """Takes effect between two nodes of the graph; the run raises Cancelled then."""
        self._options.terminate = True

    def close(self) -> None:
        """Nothing to do: the session belongs to the loaded model."""

    def _failure(self, error: Exception) -> GuepardError:
        failure = run_error(error, self._model, shapes_are_free=self._shapes_are_free)
        level = logging.INFO if isinstance(failure, InputError) else logging.ERROR
        _LOGGER.log(level, "model %s: %s", self._model, error)
        return failure


class TextExecutor(OnnxRuntimeExecutor):
    """Executes models with BYTES tensors, which ONNX Runtime takes and gives as `str`."""

    __slots__ = ()

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        texts = [
            None if array is None else self._decode(spec, array)
            for spec, array in zip(self._inputs, inputs, strict=True)
        ]
        outputs = super().execute(texts, requests)
        return [_encode(spec, array) for spec, array in zip(self._outputs, outputs, strict=True)]

    def _decode(self, spec: TensorSpec, array: Array) -> Array:
        if spec.datatype.name != "BYTES":
            return array
        text: list[str] = []
        try:
            text.extend(element.decode() for element in array.flat)
        except UnicodeDecodeError as error:
            index = len(text)
            raise InputError(
                f"input {spec.name!r}: the model takes text, and element {error.object[:40]!r} is not valid UTF-8",
                row=index * len(array) // array.size if self._batched else None,
            ) from None
        return _objects(text, array.shape)


class BrainFloatExecutor(OnnxRuntimeExecutor):
    """Executes models with BF16 tensors: they have no numpy type and travel in ONNX Runtime's own values.

    Such a value cannot be made from text, so a model with both is refused when it is loaded.
    """

    __slots__ = ()

    def __init__(self, session: Any, model: str, description: ModelDescription) -> None:
        super().__init__(session, model, description)
        self._run = session.run_with_ort_values

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        values = [
            None if array is None else _to_ort_value(spec, array)
            for spec, array in zip(self._inputs, inputs, strict=True)
        ]
        outputs = super().execute(values, requests)
        return [_from_ort_value(spec, value) for spec, value in zip(self._outputs, outputs, strict=True)]


def executor_for(session: Any, model: str, description: ModelDescription) -> OnnxRuntimeExecutor:
    """The cheapest executor that can carry the model's datatypes."""
    datatypes = {spec.datatype.name for spec in (*description.inputs, *description.outputs)}
    if "BF16" in datatypes:
        return BrainFloatExecutor(session, model, description)
    if "BYTES" in datatypes:
        return TextExecutor(session, model, description)
    return OnnxRuntimeExecutor(session, model, description)


def _to_ort_value(spec: TensorSpec, array: Array) -> Any:
    array = np.asarray(array, order="C")
    if spec.datatype.name == "BF16":
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, _ONNX_BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(array)


def _from_ort_value(spec: TensorSpec, value: Any) -> Array:
    if spec.datatype.name != "BF16":
        return _encode(spec, value.numpy())
    bits = np.empty(value.shape(), np.uint16)
    if bits.size:
        ctypes.memmove(bits.ctypes.data, value.data_ptr(), bits.nbytes)
    return bits


def _encode(spec: TensorSpec, array: Array) -> Array:
    if spec.datatype.name != "BYTES":
        return array
    return _objects([element.encode() for element in array.flat], array.shape)


def _objects(elements: Sequence[object], shape: tuple[int, ...]) -> Array:
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(shape)
