"""InferenceResponse to the bytes of a `ModelInferResponse`, written field by field.

The bytes before an output's data repeat, so they are made once for every shape that is answered; what is left is one
join, which is the only copy of the data. Field numbers: Triton's `grpc_service.proto`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from guepard.core.errors import NotAcceptable
from guepard.core.memo import Memo
from guepard.core.model_config import ModelConfig
from guepard.core.regions import NOT_ALLOWED, Regions
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse
from guepard.core.tensor import Array, TensorSpec
from guepard.protocols.grpc_contents import encode_contents
from guepard.protocols.grpc_messages import message_class
from guepard.protocols.oip_binary import encode_array

_MEMO_LIMIT = 256
_MAX_MESSAGE = 2**31 - 1  # what protobuf can hold

_NO_ECHOES: Mapping[str, Any] = {}
_NAME, _VERSION, _ID, _OUTPUT, _RAW = b"\x0a", b"\x12", b"\x1a", b"\x2a", b"\x32"


class ReplyWriter:
    """Writes the answers of the model that `config` describes."""

    def __init__(self, config: ModelConfig, regions: Regions = NOT_ALLOWED) -> None:
        self.config = config
        self._regions = regions
        self._opening = _field(_NAME, config.name.encode()) + _field(_VERSION, config.version.encode())
        self._heads: Memo[tuple[str, tuple[int, ...]], bytes] = Memo(_MEMO_LIMIT)

    def write(self, request: InferenceRequest, response: InferenceResponse) -> bytes:
        """Outputs that were asked for in shared memory are written there, unless they have been.

        Raises: NotAcceptable for an answer that is larger than a message can be; InputError, NotFound.
        """
        parts = [self._opening]
        if request.id is not None:
            parts.append(_field(_ID, request.id.encode()))
        if response.parameters:
            parts.append(_parameters(response.parameters))
        raw: list[bytes | memoryview] = []
        outputs = response.chosen(request.requested_outputs)
        shared = request.reply_format.shared
        echoes = shared.written(outputs, self._regions) if shared is not None else _NO_ECHOES
        for spec, array in outputs:
            if spec.name in echoes:
                parts.append(_placed(spec, array, echoes[spec.name]))
                if request.reply_format.binary:
                    raw.append(_RAW + varint(0))  # clients count raw contents by outputs
            elif request.reply_format.is_binary(spec.name):
                parts.append(self._heads.get((spec.name, array.shape)) or self._head(spec, array.shape))
                data = encode_array(spec.datatype.name, array)
                raw.append(b"%b%b" % (_RAW, varint(len(data))))
                raw.append(data)
            else:
                parts.append(_typed(spec, array))
        message = b"".join((*parts, *raw))
        if len(message) > _MAX_MESSAGE:
            raise NotAcceptable(f"the answer is {len(message)} bytes long, a gRPC message at most {_MAX_MESSAGE}")
        return message

    def _head(self, spec: TensorSpec, shape: tuple[int, ...]) -> bytes:
        head = _field(_OUTPUT, _output(spec, shape).SerializeToString())
        self._heads.keep((spec.name, shape), head)
        return head


def _output(spec: TensorSpec, shape: Sequence[int]) -> Any:
    output_class = message_class("inference.ModelInferResponse.InferOutputTensor")
    return output_class(name=spec.name, datatype=spec.datatype.name, shape=shape)


def _typed(spec: TensorSpec, array: Array) -> bytes:
    output = _output(spec, array.shape)
    output.contents.CopyFrom(encode_contents(spec.datatype.name, array))
    data: bytes = output.SerializeToString()
    return _field(_OUTPUT, data)


def _placed(spec: TensorSpec, array: Array, echo: Mapping[str, Any]) -> bytes:
    output = _output(spec, array.shape)
    _set_parameters(output, echo)
    data: bytes = output.SerializeToString()
    return _field(_OUTPUT, data)


def _parameters(parameters: Mapping[str, Any]) -> bytes:
    message = message_class("inference.ModelInferResponse")()
    _set_parameters(message, parameters)
    data: bytes = message.SerializeToString()
    return data


def _set_parameters(message: Any, parameters: Mapping[str, Any]) -> None:
    for key, value in parameters.items():
        parameter = message.parameters[key]
        if isinstance(value, bool):
            parameter.bool_param = value
        elif isinstance(value, int):
            parameter.int64_param = value
        elif isinstance(value, float):
            parameter.double_param = value
        else:
            parameter.string_param = str(value)


def _field(tag: bytes, data: bytes) -> bytes:
    return b"%b%b%b" % (tag, varint(len(data)), data)


def varint(value: int) -> bytes:
    """`value`, which is not negative, as protobuf writes integers."""
    if value < 0x80:
        return bytes((value,))
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
