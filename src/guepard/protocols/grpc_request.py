"""`ModelInferRequest`: bytes to an InferenceRequest, without copying the tensors out of the message.

The raw contents, which are nearly all of a message, are cut off first; what is left, the head, is parsed by protobuf.
A client that sends the same tensors with other values repeats its head to the letter, so heads are kept by their bytes
(ADR 0002) and a known one costs no parsing at all.

    message  ─►  head: name, version, id, parameters, inputs, outputs     (fields 1 to 6)
             ─►  raw contents: one span of the message for each input     (field 7)
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from guepard.core.errors import GuepardError, InputError
from guepard.core.memo import Memo
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY, ResponseSender
from guepard.core.tensor import Array, Tensor
from guepard.protocols import oip_binary
from guepard.protocols.grpc_contents import decode_contents
from guepard.protocols.grpc_messages import message_class
from guepard.protocols.oip_messages import (
    MAX_ID,
    MAX_PARAMETERS,
    MAX_RANK,
    MAX_TENSORS,
    MAX_TEXT,
    WireOutput,
    known_datatype,
)
from guepard.protocols.oip_parameters import apply_parameters, refuse_tensor_parameters
from guepard.protocols.reply_format import BINARY, place_inputs, requested
from guepard.protocols.shared_tensors import SharedInput, find_place, shared_input
from guepard.protocols.tensor_slot import TensorSlot, tensor_slot

Span = tuple[int, int]

_LENGTH_DELIMITED = 2
_RAW_FIELD = 0x3A  # field 7, length-delimited
_MAX_TAG = 0x3A
_MAX_FIELDS = 4 * MAX_TENSORS  # inputs, outputs, raw contents and parameters; each costs the same however short it is
_MAX_VARINT = 10
_MEMO_LIMIT = 256
_MEMO_BYTES = 2_048

_ndarray = np.ndarray


class InferHead:
    """Everything of a request but its raw contents. Requests share it, so its typed arrays are read-only. Of an input
    in shared memory only the place is there.

    A head that is wrong keeps its `fault`, to be raised when a request is made of it, so that the model counts it.
    """

    __slots__ = ("_fault", "_has_shared", "_model", "_raw_count", "_slots", "model_name", "model_version")

    def __init__(self, wire: Any, has_raw: bool) -> None:
        self.model_name: str = wire.model_name
        self.model_version: str | None = wire.model_version or None
        self._slots: Sequence[TensorSlot | Tensor | SharedInput] = ()
        self._raw_count = 0
        self._has_shared = False
        self._model = InferenceRequest((), NOBODY, 0)
        self._fault: GuepardError | None = None
        try:
            _describe(self._model, wire)
            self._slots = [_slot(tensor, f"inputs[{index}]", has_raw) for index, tensor in enumerate(wire.inputs)]
            self._raw_count = sum(isinstance(slot, TensorSlot) for slot in self._slots)
            self._has_shared = any(isinstance(slot, SharedInput) for slot in self._slots)
        except GuepardError as error:
            self._fault = error

    def request(
        self, message: bytes, spans: Sequence[Span], sender: ResponseSender, request_start: int
    ) -> InferenceRequest:
        """The request whose raw contents are the `spans` of `message`, as views. Raises: InputError, Unsupported."""
        if self._fault is not None:
            raise self._fault.with_traceback(None)  # else each raise would add to what it refers to
        if len(spans) != self._raw_count:
            raise InputError(
                f"raw_input_contents: {len(spans)} came for {self._raw_count} inputs; send one for each input, or none"
            )
        tensors: list[Any] = []
        following = iter(spans)
        for slot in self._slots:
            if not isinstance(slot, TensorSlot):
                tensors.append(slot)
                continue
            name, datatype, shape, size, dtype = slot
            start, end = next(following)
            if dtype is not None and end - start == size:
                array: Array = _ndarray(shape, dtype, message, start)
            else:
                array = oip_binary.decode_array(name, datatype, shape, message, start, end - start)
            tensors.append(Tensor(name, datatype, array))
        request = InferenceRequest(tensors, sender, request_start)
        request.resemble(self._model)
        if self._has_shared:
            place_inputs(request, tensors)
        return request


class ReadMessage(NamedTuple):
    head: InferHead
    message: bytes
    spans: Sequence[Span]


class RequestReader:
    """Reads requests to any model."""

    def __init__(self) -> None:
        self._heads: Memo[tuple[bytes, bool], InferHead] = Memo(_MEMO_LIMIT)

    def read(self, message: bytes) -> ReadMessage:
        """Raises: InputError for bytes that are no `ModelInferRequest`."""
        parts = split(message)
        if parts is None:  # fields of another version of the protocol, or no message at all
            _refuse_many_fields(message)
            known = _parsed(message)
            known.DiscardUnknownFields()
            message = known.SerializeToString()
            parts = split(message)
            assert parts is not None
        text, spans = parts
        key = (text, bool(spans))
        head = self._heads.get(key)
        if head is None:
            head = InferHead(_parsed(text), bool(spans))
            if len(text) <= _MEMO_BYTES:
                self._heads.keep(key, head)
        return ReadMessage(head, message, spans)


def split(message: bytes) -> tuple[bytes, list[Span]] | None:
    """Cut the raw contents off: the other fields as one message, and the spans of the raw contents within `message`.

    None unless every field of the message is one of those of `ModelInferRequest`, which are all length-delimited.
    Raises: InputError for more fields than a request can mean.
    """
    spans: list[Span] = []
    kept: list[bytes] = []
    offset, end, kept_from = 0, len(message), 0
    left = _MAX_FIELDS
    while offset < end:
        left -= 1
        if left < 0:
            raise _many_fields()
        tag = message[offset]
        start = offset
        offset += 1
        if tag > _MAX_TAG or tag & 7 != _LENGTH_DELIMITED or tag < 8:
            return None
        length = shift = 0
        while True:
            if offset >= end or shift > 28:
                return None
            byte = message[offset]
            offset += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if length > end - offset:
            return None
        if tag == _RAW_FIELD:
            if kept_from < start:
                kept.append(message[kept_from:start])
            spans.append((offset, offset + length))
            kept_from = offset + length
        offset += length
    if kept_from < end:
        kept.append(message[kept_from:end])
    return (kept[0] if len(kept) == 1 else b"".join(kept)), spans


def _refuse_many_fields(message: bytes) -> None:
    """The bound of `split` for a message with fields that it does not know, before protobuf makes objects of them all.

    Stops where protobuf will find that this is no message. Raises: InputError.
    """
    offset, end = 0, len(message)
    for _ in range(_MAX_FIELDS):
        tag, offset = _varint(message, offset)
        match tag & 7:
            case 0:
                _, offset = _varint(message, offset)
            case 1:
                offset += 8
            case 2:
                length, offset = _varint(message, offset)
                offset += length
            case 5:
                offset += 4
        if offset >= end:
            return
    raise _many_fields()


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    """The integer at `offset` and where it ends; beyond the message when it does not end, or is none."""
    value = 0
    for index, byte in enumerate(message[offset : offset + _MAX_VARINT]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, offset + index + 1
    return 0, len(message)


def _many_fields() -> InputError:
    return InputError(f"request message: more than {_MAX_FIELDS} fields; inputs and outputs are {MAX_TENSORS} at most")


def _parsed(message: bytes) -> Any:
    try:
        return message_class("inference.ModelInferRequest").FromString(message)
    except DecodeError:
        raise InputError("request message: not a ModelInferRequest") from None


def _describe(request: InferenceRequest, wire: Any) -> None:
    """Note on `request` everything that its message says beside the tensors. Raises: InputError, Unsupported."""
    _bound("id", wire.id, MAX_ID)
    for field in ("inputs", "outputs"):
        if len(getattr(wire, field)) > MAX_TENSORS:
            raise InputError(f"{field}: {len(getattr(wire, field))} are too many; at most {MAX_TENSORS}")
    parameters = parameter_values("parameters", wire.parameters)
    outputs = [
        WireOutput(
            _bound(f"outputs[{index}].name", output.name, MAX_TEXT),
            parameter_values(f"outputs[{index}].parameters", output.parameters) or None,
        )
        for index, output in enumerate(wire.outputs)
    ]
    request.id = wire.id or None
    request.requested_outputs, request.reply_format = requested(outputs, parameters, BINARY)
    if any(output.parameters and "binary_data" in output.parameters for output in outputs):
        raise InputError(
            "outputs: over gRPC all outputs come in one form; leave binary_data out and set the request's "
            "binary_data_output to false for typed contents"
        )
    if parameters:
        apply_parameters(request, parameters)


def _slot(tensor: Any, where: str, has_raw: bool) -> "TensorSlot | Tensor | SharedInput":
    name = _bound(f"{where}.name", tensor.name, MAX_TEXT)
    if len(tensor.shape) > MAX_RANK:
        raise InputError(f"{where}.shape: expected at most {MAX_RANK} dimensions, got {len(tensor.shape)}")
    shape = list(tensor.shape)
    for axis, dim in enumerate(shape):
        if dim < 0:
            raise InputError(f"{where}.shape[{axis}]: expected 0 or more, got {dim}")
    datatype = known_datatype(name, _bound(f"{where}.datatype", tensor.datatype, MAX_TEXT))
    parameters = parameter_values(f"{where}.parameters", tensor.parameters)
    refuse_tensor_parameters(where, parameters)
    place = find_place(where, parameters)
    if place is not None:
        if tensor.contents.ListFields():
            raise InputError(f"input {name!r}: both contents and shared_memory_region; send one of them")
        return shared_input(name, datatype, shape, place)
    if not has_raw:
        array = decode_contents(name, datatype, shape, tensor.contents, where)
        array.flags.writeable = False
        return Tensor(name, datatype, array)
    if tensor.contents.ListFields():
        raise InputError(f"{where}.contents: raw_input_contents came as well; send all inputs in one of the two forms")
    return tensor_slot(name, datatype, shape)


def parameter_values(field: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a map of `InferParameter`. Raises: InputError for one without a value, and for too many."""
    if len(parameters) > MAX_PARAMETERS:
        raise InputError(f"{field}: {len(parameters)} are too many; at most {MAX_PARAMETERS}")
    values = {}
    for key, parameter in parameters.items():
        choice = parameter.WhichOneof("parameter_choice")
        if choice is None:
            raise InputError(f"{field}.{key[:64]}: no value; set one of its *_param fields")
        values[_bound(f"a key of {field}", key, MAX_TEXT)] = getattr(parameter, choice)
    return values


def _bound(field: str, text: str, limit: int) -> str:
    if len(text) > limit:
        raise InputError(f"{field}: expected at most {limit} characters, got {len(text)}")
    return text
