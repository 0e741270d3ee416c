"""One model's reader and writer of OIP V2 messages over HTTP.

Everything that can be known before a request comes is made once: which decoder parses flat data of this model, and the
bytes that stand before each output's data for every shape that has been answered.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from guepard.core.errors import InputError, Unsupported
from guepard.core.memo import Memo
from guepard.core.model_config import ModelConfig
from guepard.core.regions import NOT_ALLOWED, Regions
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse, ResponseSender
from guepard.core.tensor import Array, Tensor, TensorSpec
from guepard.protocols import oip_binary, oip_json
from guepard.protocols.flat_numbers import FlatNumbers
from guepard.protocols.large_arrays import LargeArrays, find_large_arrays
from guepard.protocols.large_json import LARGE, LargeJson, Rows, rows_of, weight
from guepard.protocols.number_text import Pause, read_numbers
from guepard.protocols.oip_binary import encode_array as encode_binary
from guepard.protocols.oip_binary_head import BinaryHead
from guepard.protocols.oip_json import encode_array as encode_json
from guepard.protocols.oip_messages import WireRequest, WireTensor, request_decoder
from guepard.protocols.oip_output import OutputWords
from guepard.protocols.reply_format import BINARY, JSON, ReplyFormat, describe, place_inputs
from guepard.protocols.shared_tensors import SharedInput, find_shared_input

Buffer = bytes | memoryview
_Words = Sequence[OutputWords]

_MEMO_LIMIT = 256
_MEMO_BYTES = 2_048

_NO_ECHOES: Mapping[str, Any] = {}
_UNSET = msgspec.UNSET


class OipCodec:
    """Reads requests to, and writes answers of, the model that `config` describes.

    Of inputs in shared memory a request has only the places, in `reply_format.shared`: who has them collected, and on
    which thread, is the caller's to choose. Outputs are written into `regions`.
    """

    def __init__(self, config: ModelConfig, regions: Regions = NOT_ALLOWED) -> None:
        self.config = config
        self._regions = regions
        datatype = oip_json.shared_datatype(config.inputs)
        self._numbers = FlatNumbers(datatype) if datatype else None
        self._flat_decode = request_decoder(datatype).decode
        self._opening = b'{"model_name":%b,"model_version":%b,' % (_text(config.name), _text(config.version))
        self._plain_opening = self._opening + b'"outputs":['
        self._words = tuple([OutputWords(place, spec) for place, spec in enumerate(config.outputs)])
        self._chosen: Memo[tuple[str, ...], _Words] = Memo(_MEMO_LIMIT)
        self._binary_heads: Memo[bytes, BinaryHead] = Memo(_MEMO_LIMIT)

    # Requests

    def decode_json(self, body: Buffer, sender: ResponseSender, request_start: int) -> InferenceRequest:
        """Read a JSON request. Raises: InputError, Unsupported."""
        numbers = self._numbers
        if numbers is not None:
            try:
                wire = self._flat_decode(body)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                pass  # not flat data of the model's own datatype, or wrong: the other road tells which
            else:
                tensors = self._flat_tensors(wire, numbers)
                if tensors is not None:
                    request = InferenceRequest(tensors, sender, request_start)
                    if wire.outputs or wire.parameters:
                        describe(request, wire)
                    else:
                        request.id = wire.id
                        request.reply_format = JSON
                    return request
        wire = oip_json.decode(body)
        inputs = [_input(tensor, f"inputs[{index}]") for index, tensor in enumerate(wire.inputs)]
        return _request(inputs, wire, sender, request_start)

    def decode_large(self, body: Buffer, sender: ResponseSender, request_start: int, pause: Pause) -> InferenceRequest:
        """As `decode_json`, for long bodies and beside the loop. `pause` is called every now and then.

        Raises: InputError, Unsupported.
        """
        found = find_large_arrays(body)
        if found is not None:
            try:
                request = self._with_arrays(found, sender, request_start, pause)
            except (InputError, Unsupported):
                request = None  # the body as a whole tells what is wrong
            if request is not None:
                return request
        return self.decode_json(body, sender, request_start)

    def _with_arrays(
        self, found: LargeArrays, sender: ResponseSender, request_start: int, pause: Pause
    ) -> InferenceRequest | None:
        wire = oip_json.decode(found.rest)
        inputs: list[Tensor | SharedInput] = []
        place = 0
        for index, tensor in enumerate(wire.inputs):
            if found.place_of(tensor.data) < 0:
                inputs.append(_input(tensor, f"inputs[{index}]"))
                continue
            array = self._large_array(found, place, tensor, pause)
            if array is None:
                return None
            inputs.append(Tensor(tensor.name, tensor.datatype, array))
            place += 1
        if place != len(found.arrays):
            return None
        return _request(inputs, wire, sender, request_start)

    def _large_array(
        self, found: LargeArrays, place: int, tensor: WireTensor[msgspec.Raw], pause: Pause
    ) -> Array | None:
        """The data of `tensor`, if it is the next of the arrays; None: left to another way."""
        if tensor.parameters or found.place_of(tensor.data) != place:
            return None
        depth, text = oip_json.depth_of(bytes(found.arrays[place][:4_096])), found.arrays[place]
        if depth not in (1, len(tensor.shape)):
            return None
        return read_numbers(text, tensor.datatype, tensor.shape, depth == 1, pause)

    def _flat_tensors(self, wire: WireRequest[list[Any]], numbers: FlatNumbers) -> list[Tensor] | None:
        """The inputs, if each is flat data of the model's own datatype and of the size that its shape needs."""
        datatype = numbers.datatype
        tensors = []
        for tensor in wire.inputs:
            if tensor.datatype != datatype or tensor.parameters or tensor.data is _UNSET:
                return None
            array = numbers.array(tensor.shape, tensor.data)
            if array is None:
                return None
            tensors.append(Tensor(tensor.name, datatype, array))
        return tensors

    def decode_binary(
        self, body: Buffer, header_length: int, sender: ResponseSender, request_start: int
    ) -> InferenceRequest:
        """Read a request whose JSON part is `header_length` bytes long and whose tensors follow as bytes.

        Raises: InputError, Unsupported.
        """
        if header_length == 0:
            return self._decode_raw(body, sender, request_start)
        if header_length > len(body):
            raise InputError(
                f"Inference-Header-Content-Length: {header_length} is more than the body's {len(body)} bytes"
            )
        text = bytes(body[:header_length])
        head = self._binary_heads.get(text)
        if head is None:
            head = BinaryHead(oip_json.decode(text))
            if header_length <= _MEMO_BYTES:
                self._binary_heads.keep(text, head)
        return head.request(body, header_length, sender, request_start)

    def _decode_raw(self, body: Buffer, sender: ResponseSender, request_start: int) -> InferenceRequest:
        """A header length of 0: the body is the one input's bytes, the outputs come back as bytes."""
        shape, spec = _raw_shape(self.config, len(body))
        if spec.datatype.kind == "bytes":
            body = len(body).to_bytes(4, "little") + body
        array = oip_binary.decode_array(spec.name, spec.datatype.name, shape, body, 0, len(body))
        request = InferenceRequest([Tensor(spec.name, spec.datatype.name, array)], sender, request_start)
        request.reply_format = BINARY
        return request

    # Answers

    def encode(
        self, request: InferenceRequest, response: InferenceResponse
    ) -> tuple[int | None, Sequence[Buffer] | LargeJson]:
        """The body of an answer and, where tensors follow it as bytes, the length of its JSON part.

        A body of much JSON is a LargeJson, which has not been checked yet, and knows the length only once written.
        Outputs that were asked for in shared memory are written there, unless they have been.

        Raises: NotAcceptable, and what Regions raise.
        """
        opening = self._plain_opening
        if request.id is not None or response.parameters:
            opening = self._telling_opening(request, response)
        outputs = response.outputs
        wanted = request.requested_outputs
        chosen = self._words if wanted is None else self._chosen.get(wanted) or self._choose(wanted)
        reply_format = request.reply_format
        if reply_format is BINARY:
            return self._encode_binary(opening, chosen, outputs)
        if reply_format is not JSON:
            return self._encode_mixed(opening, reply_format, chosen, outputs)
        parts: list[Buffer] = [opening]
        total = 0
        for words in chosen:
            array, spec = outputs[words.place], words.spec
            total += array.size if spec.plain else weight(spec, array)
            if total > LARGE:
                return None, self._in_slices(opening, JSON, chosen, outputs, _NO_ECHOES)
            head = words.json.get(array.shape) or words.before_data(array.shape)
            parts += (head, encode_json(spec, array.reshape(-1)), b"},")
        parts[-1] = b"}]}"
        return None, parts  # joined with the head of the answer, at once

    def _telling_opening(self, request: InferenceRequest, response: InferenceResponse) -> bytes:
        identity = b'"id":%b,' % _text(request.id) if request.id is not None else b""
        parameters = b'"parameters":%b,' % orjson.dumps(dict(response.parameters)) if response.parameters else b""
        return b'%b%b%b"outputs":[' % (self._opening, identity, parameters)

    def _choose(self, names: tuple[str, ...]) -> _Words:
        by_name = {words.name: words for words in self._words}
        chosen = [by_name[name] for name in names]
        self._chosen.keep(names, chosen)
        return chosen

    def _encode_binary(
        self, opening: bytes, chosen: _Words, outputs: Sequence[Array]
    ) -> tuple[int | None, Sequence[Buffer]]:
        written: list[bytes] = []
        buffers: list[Buffer] = []
        for words in chosen:
            array = outputs[words.place]
            data = encode_binary(words.datatype, array)
            written.append(words.binary.get(array.shape) or words.of_bytes(array.shape, len(data)))
            buffers.append(data)
        text = b"%b%b]}" % (opening, b",".join(written))
        return (len(text) if buffers else None), (text, *buffers)

    def _encode_mixed(
        self, opening: bytes, reply_format: ReplyFormat, chosen: _Words, outputs: Sequence[Array]
    ) -> tuple[int | None, Sequence[Buffer] | LargeJson]:
        written: list[bytes] = []
        buffers: list[Buffer] = []
        shared = reply_format.shared
        pairs = [(words.spec, outputs[words.place]) for words in chosen]
        echoes = shared.written(pairs, self._regions) if shared is not None else _NO_ECHOES
        total = 0
        for words in chosen:
            array, spec = outputs[words.place], words.spec
            if reply_format.is_binary(words.name):
                data = encode_binary(words.datatype, array)
                written.append(words.of_bytes(array.shape, len(data)))
                buffers.append(data)
            elif words.name in echoes:
                head = words.before_parameters(array.shape)
                written.append(b'%b"parameters":%b}' % (head, orjson.dumps(echoes[words.name])))
            else:
                total += weight(spec, array)
                if total > LARGE:
                    return None, self._in_slices(opening, reply_format, chosen, outputs, echoes)
                head = words.json.get(array.shape) or words.before_data(array.shape)
                written.append(b"%b%b}" % (head, encode_json(spec, array.reshape(-1))))
        text = b"%b%b]}" % (opening, b",".join(written))
        return (len(text) if buffers else None), (text, *buffers)

    def _in_slices(
        self,
        opening: bytes,
        reply_format: ReplyFormat,
        chosen: _Words,
        outputs: Sequence[Array],
        echoes: Mapping[str, Any],
    ) -> LargeJson:
        parts: list[bytes | Rows] = []
        buffers: list[Buffer] = []
        before = opening
        for words in chosen:
            array = outputs[words.place]
            head = before + words.before_parameters(array.shape)
            if reply_format.is_binary(words.name):
                data = encode_binary(words.datatype, array)
                parts.append(before + words.of_bytes(array.shape, len(data)))
                buffers.append(data)
            elif words.name in echoes:
                parts.append(b'%b"parameters":%b}' % (head, orjson.dumps(echoes[words.name])))
            else:
                parts += (head + b'"data":[', rows_of(words.spec, array, flat=True), b"]}")
            before = b","
        parts.append(b"]}")
        return LargeJson(parts, buffers)


def _request(
    inputs: Sequence[Tensor | SharedInput],
    wire: WireRequest[msgspec.Raw],
    sender: ResponseSender,
    request_start: int,
) -> InferenceRequest:
    tensors = [given for given in inputs if isinstance(given, Tensor)]
    request = InferenceRequest(tensors, sender, request_start)
    describe(request, wire)
    if len(tensors) < len(inputs):
        place_inputs(request, inputs)
    return request


def _input(tensor: WireTensor[msgspec.Raw], where: str) -> Tensor | SharedInput:
    return find_shared_input(tensor, where) or oip_json.tensor(tensor, where)


def _raw_shape(config: ModelConfig, size: int) -> tuple[list[int], TensorSpec]:
    """The shape of the only input when its `size` bytes come without any description.

    Raises: InputError unless the model has one input with at most one free dimension.
    """
    raw = "Inference-Header-Content-Length: 0 (a raw body)"
    if len(config.inputs) != 1:
        raise InputError(f"{raw} needs a model with one input, {config.name!r} has {len(config.inputs)}")
    spec = config.inputs[0]
    shape = list(spec.dims)
    if spec.datatype.kind == "bytes":
        shape = [1 if dim == -1 else dim for dim in shape]
    elif shape.count(-1) > 1:
        raise InputError(f"{raw} needs at most one free dimension, {spec.name!r} has {list(spec.dims)}")
    elif -1 in shape:
        known = spec.datatype.size
        for dim in shape:
            known *= dim if dim != -1 else 1
        if known == 0 or size % known:
            raise InputError(
                f"input {spec.name!r}: {size} bytes do not fill shape {list(spec.dims)} of {spec.datatype.name}"
            )
        shape[shape.index(-1)] = size // known
    return ([1, *shape] if config.max_batch_size else shape), spec


def _text(value: str) -> bytes:
    return orjson.dumps(value)
