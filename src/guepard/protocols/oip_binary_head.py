"""The JSON part of a binary request, understood once and laid over one body after another.

A client that sends tensors as bytes repeats the JSON before them to the letter: what changes is the bytes. The codec
therefore keeps heads by their text, as the HTTP server keeps its own (ADR 0002).
"""

from collections.abc import Sequence
from reprlib import repr as shortened
from typing import Any

import msgspec
import numpy as np

from guepard.core.errors import InputError
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY, ResponseSender
from guepard.core.tensor import Array, Tensor
from guepard.protocols import oip_binary, oip_json
from guepard.protocols.oip_messages import WireRequest, WireTensor, known_datatype
from guepard.protocols.oip_parameters import is_whole, refuse_tensor_parameters
from guepard.protocols.reply_format import describe, place_inputs
from guepard.protocols.shared_tensors import SharedInput, find_shared_input
from guepard.protocols.tensor_slot import TensorSlot, tensor_slot

_ndarray = np.ndarray


class BinaryHead:
    """`_slots` in the order of the inputs; an input that brought its data as JSON is there as it is.

    Requests share those arrays, which are therefore read-only. Of an input in shared memory only the place is there.
    """

    __slots__ = ("_has_shared", "_model", "_says_more", "_size", "_slots", "_views")

    def __init__(self, wire: WireRequest[msgspec.Raw]) -> None:
        """Raises: InputError, Unsupported."""
        self._slots = [_slot(tensor, f"inputs[{index}]") for index, tensor in enumerate(wire.inputs)]
        self._size = sum([slot.size for slot in self._slots if isinstance(slot, TensorSlot)])
        self._has_shared = any(isinstance(slot, SharedInput) for slot in self._slots)
        # What nearly all have: tensors that are views on the body and nothing else. Each with where it begins.
        self._views = _views(self._slots)
        self._model = InferenceRequest((), NOBODY, 0)
        describe(self._model, wire)
        self._says_more = bool(wire.id is not None or wire.parameters)

    def request(
        self, body: bytes | memoryview, start: int, sender: ResponseSender, request_start: int
    ) -> InferenceRequest:
        """The request whose tensors lie in `body` from `start` on, as views. Raises: InputError."""
        if len(body) - start != self._size:
            raise InputError(
                f"request body: the binary_data_size values add up to {self._size} bytes, "
                f"but {len(body) - start} follow the JSON part"
            )
        tensors: list[Any] = []
        if self._views:
            for name, datatype, shape, dtype, offset in self._views:
                tensors.append(Tensor(name, datatype, _ndarray(shape, dtype, body, start + offset)))
        else:
            self._collect(tensors, body, start)
        request = InferenceRequest(tensors, sender, request_start)
        model = self._model
        if self._says_more:
            request.resemble(model)
        else:
            request.requested_outputs = model.requested_outputs
            request.reply_format = model.reply_format
        if self._has_shared:
            place_inputs(request, tensors)
        return request

    def _collect(self, tensors: list[Any], body: bytes | memoryview, start: int) -> None:
        for slot in self._slots:
            if not isinstance(slot, TensorSlot):
                tensors.append(slot)
                continue
            name, datatype, shape, size, dtype = slot
            if dtype is None:
                array: Array = oip_binary.decode_array(name, datatype, shape, body, start, size)
            else:
                array = _ndarray(shape, dtype, body, start)
            tensors.append(Tensor(name, datatype, array))
            start += size


def _views(slots: Sequence[object]) -> list[tuple[str, str, tuple[int, ...], np.dtype[Any], int]]:
    views = []
    offset = 0
    for slot in slots:
        if not isinstance(slot, TensorSlot) or slot.dtype is None:
            return []
        views.append((slot.name, slot.datatype, tuple(slot.shape), slot.dtype, offset))
        offset += slot.size
    return views


def _slot(tensor: WireTensor[msgspec.Raw], where: str) -> "TensorSlot | Tensor | SharedInput":
    parameters = tensor.parameters
    in_memory = find_shared_input(tensor, where)
    if in_memory is not None:
        return in_memory
    if not parameters or "binary_data_size" not in parameters:
        shared = oip_json.tensor(tensor, where)
        shared.array.flags.writeable = False
        return shared
    refuse_tensor_parameters(where, parameters)
    name, shape = tensor.name, tensor.shape
    if tensor.data is not msgspec.UNSET:
        raise InputError(f"input {name!r}: both data and binary_data_size; send one of them")
    size = parameters["binary_data_size"]
    if not is_whole(size) or size < 0:
        raise InputError(
            f"{where}.parameters.binary_data_size: expected a whole number of 0 or more, got {shortened(size)}"
        )
    return tensor_slot(name, known_datatype(name, tensor.datatype), shape, size)
