"""Runs batches on a compiled model of OpenVINO. On the hot path: inputs are not copied, outputs once.

The thread that calls computes, with as many others as the stream has.
"""

import ctypes
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import openvino

from guepard.backends.base import Inputs, Outputs
from guepard.backends.openvino_errors import is_cancelled, run_error
from guepard.backends.openvino_values import ValueRule
from guepard.core.errors import Cancelled, GuepardError, InputError
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array

log = logging.getLogger("guepard.backends.openvino")

_UNWANTED = "the execution was ended, as nobody waited for it any more"


class OpenVinoExecutor:
    """One inference request of a compiled model, whose weights all of them share.

    `memory`: what the weights lie in, if that is not the compiled model's own.
    """

    __slots__ = (
        "_batched",
        "_halves",
        "_inputs",
        "_is_ended",
        "_memory",
        "_model",
        "_outputs",
        "_request",
        "_rules",
        "_shapes_are_free",
    )

    buffers = None

    def __init__(
        self,
        compiled: Any,
        model: str,
        description: ModelDescription,
        rules: Sequence[ValueRule],
        memory: Array | None = None,
    ) -> None:
        self._request = compiled.create_infer_request()
        self._memory = memory
        self._model = model
        self._batched = description.max_batch_size > 0
        self._inputs = description.inputs
        self._halves = [spec.datatype.name == "BF16" for spec in description.inputs]
        self._outputs = tuple((place, spec.datatype.name == "BF16") for place, spec in enumerate(description.outputs))
        self._rules = tuple(rules)
        self._is_ended = False
        self._shapes_are_free = any(spec.free for spec in description.inputs)

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        if self._is_ended:  # meant for an earlier run, or for this one: the requests know
            self._is_ended = False
            if requests and all(request.is_released for request in requests):
                raise Cancelled(_UNWANTED)
        for rule in self._rules:
            array = inputs[rule.place]
            if array is not None:
                rule.check(self._inputs[rule.place], array, is_batched=self._batched)
        request = self._request
        arrays = [_plain(array) for array in inputs if array is not None]
        try:
            for place, array in enumerate(arrays):
                request.set_input_tensor(place, _tensor(array, is_half=self._halves[place]))
            request.infer(share_outputs=True)  # by itself it copies them, and nobody takes these copies
            return [_copied(request.get_output_tensor(place).data, half) for place, half in self._outputs]
        except Exception as error:
            if self._is_ended or is_cancelled(error):
                self._is_ended = False
                raise Cancelled(_UNWANTED) from None
            raise self._failure(error) from None

    def execute_stream(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Iterator[Outputs]:
        yield self.execute(inputs, requests)

    def terminate(self) -> None:
        """Takes effect between two nodes of the graph; the run raises Cancelled then."""
        self._is_ended = True
        self._request.cancel()

    def close(self) -> None:
        """Nothing to do: the request goes with this object."""

    def _failure(self, error: Exception) -> GuepardError:
        failure = run_error(error, self._model, shapes_are_free=self._shapes_are_free)
        level = logging.INFO if isinstance(failure, InputError) else logging.ERROR
        log.log(level, "model %s: %s", self._model, error)
        return failure


def _plain(array: Array) -> Array:
    """`array` as OpenVINO shares memory: in one piece, and writable by its flags, though nobody writes."""
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        return np.array(array, order="C")
    if flags.writeable or not array.size:
        return array if flags.writeable else array.copy()
    # A view on what a client sent. It outlives the run, as the caller holds it.
    memory: Any = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    return np.frombuffer(memory, array.dtype).reshape(array.shape)


def _tensor(array: Array, *, is_half: bool) -> Any:
    """Does not keep `array` alive."""
    if is_half:
        return openvino.Tensor(array, openvino.Shape(array.shape), openvino.Type.bf16)
    return openvino.Tensor(array, shared_memory=True)


def _copied(data: Array, half: bool) -> Array:
    return data.view(np.uint16).copy() if half else data.copy()
