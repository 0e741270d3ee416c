"""One model's reader and writer of predict messages: TensorFlow Serving's REST form, which KServe V1 shares.

`instances` are rows, and are answered by `predictions`; `inputs` are whole columns, answered by `outputs`. Datatypes
come from the model's declaration, shapes from the nesting. Most requests are parsed and checked in one pass by the
decoder that suits bare values (one input) or objects (several); what it refuses is looked at again to find which form
it has.
Source: TensorFlow Serving, "RESTful API"; KServe, "V1 Protocol".
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import orjson

from guepard.core.errors import InputError, NotAcceptable
from guepard.core.model_config import ModelConfig
from guepard.core.request import InferenceRequest
from guepard.core.response import InferenceResponse, ResponseSender
from guepard.core.tensor import Array, Tensor, TensorSpec
from guepard.protocols.large_json import LargeJson
from guepard.protocols.number_text import Pause
from guepard.protocols.oip_messages import refuse
from guepard.protocols.oip_parameters import apply_parameters
from guepard.protocols.reply_format import flag
from guepard.protocols.v1_large import LargePredict
from guepard.protocols.v1_messages import PredictTypes, WirePredict, raw_decoder
from guepard.protocols.v1_outputs import SMALL, are_large, encode_objects, encode_output, large_objects, large_output
from guepard.protocols.v1_values import ValueReader

Buffer = bytes | memoryview

SIGNATURE = "serving_default"

Column = TypeVar("Column")

_UNSET = msgspec.UNSET
_FAULTS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_NUMPY = orjson.OPT_SERIALIZE_NUMPY
_IN_ROWS = re.compile(rb'\s*\[\s*\{(\s*"b64"\s*:)?')
_IN_COLUMNS = re.compile(rb'\s*\{(\s*"b64"\s*:)?')

_decode_raw = raw_decoder().decode


class PredictForm(Enum):
    """How a request was laid out, and its answer will be."""

    ROWS = "instances"
    COLUMNS = "inputs"

    @property
    def shared(self) -> None:
        """What lies in shared memory: nothing, these messages cannot say so."""


class V1Codec:
    """Reads predict requests to, and writes answers of, the model that `config` describes."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        batched = config.max_batch_size > 0
        self._types = types = PredictTypes(config.inputs, batched)
        self._decode = (types.bare or types.named).decode
        self._readers = [ValueReader(spec, batched) for spec in config.inputs]
        self._large = LargePredict(self._readers, batched, types.has_rows)
        self._getters = [attrgetter(field) for field in types.fields]
        names = ", ".join(repr(spec.name) for spec in config.inputs)
        self._whose = f"model {config.name!r} has {'input' if len(config.inputs) == 1 else 'inputs'} {names}"

    # Requests

    def decode_json(self, body: Buffer, sender: ResponseSender, request_start: int) -> InferenceRequest:
        """Read a request. Raises: InputError."""
        try:
            message = self._decode(body)
        except _FAULTS as error:
            message = self._decode_otherwise(body, error)
        return self._request(message, body, sender, request_start)

    def decode_large(self, body: Buffer, sender: ResponseSender, request_start: int, pause: Pause) -> InferenceRequest:
        """As `decode_json`, for long bodies and beside the loop. `pause` is called every now and then.

        Raises: InputError.
        """
        message = self._large.message(body, pause)
        if message is None:
            return self.decode_json(body, sender, request_start)
        return self._request(message, b"", sender, request_start)

    def _request(
        self, message: WirePredict[Any, Any], body: Buffer, sender: ResponseSender, request_start: int
    ) -> InferenceRequest:
        if message.signature_name and message.signature_name != SIGNATURE:
            raise InputError(
                f"signature_name: unknown signature {message.signature_name!r}; leave it out or send {SIGNATURE!r}"
            )
        if message.instances is not _UNSET:
            if message.inputs is not _UNSET:
                raise InputError("request body: both instances and inputs; send one of them")
            form, tensors = PredictForm.ROWS, self._rows(message.instances, body)
        elif message.inputs is not _UNSET:
            form, tensors = PredictForm.COLUMNS, self._columns(message.inputs, body)
        else:
            raise InputError("request body: neither instances nor inputs; send rows as instances or columns as inputs")
        request = InferenceRequest(tensors, sender, request_start)
        request.reply_format = form
        if message.parameters:
            if flag("parameters.binary_data_output", message.parameters.get("binary_data_output", False)):
                raise InputError("parameters.binary_data_output: predict answers in JSON; use the V2 infer route")
            apply_parameters(request, message.parameters)
        return request

    def decode_binary(
        self, body: Buffer, header_length: int, sender: ResponseSender, request_start: int
    ) -> InferenceRequest:
        """Raises: InputError, always."""
        raise InputError("Inference-Header-Content-Length: predict reads JSON alone; use the V2 infer route")

    def _decode_otherwise(self, body: Buffer, error: Exception) -> WirePredict[Any, Any]:
        """Try the other form if the body looks like it, and tell what is wrong in words of the form that it has."""
        if not body:
            raise InputError('request body: empty; send {"instances": [...]}')
        types = self._types
        named = types.bare is None
        if not named:
            try:
                raw = _decode_raw(body)
            except _FAULTS as fault:
                refuse(fault)
            if self._is_named(raw):
                named = True
                try:
                    return types.named.decode(body)
                except _FAULTS as fault:
                    error = fault
        try:
            refuse(error)
        except InputError as refusal:
            hint = f"; {self._whose}" if named and isinstance(error, msgspec.ValidationError) else ""
            raise InputError(f"{refusal.message}{hint}") from None

    def _is_named(self, raw: WirePredict[Any, Any]) -> bool:
        """Whether the values stand in objects by the names of their inputs."""
        pattern, value = (_IN_ROWS, raw.instances) if raw.instances is not _UNSET else (_IN_COLUMNS, raw.inputs)
        found = None if value is _UNSET else pattern.match(memoryview(value))
        if found is None:
            return False
        spec = self.config.inputs[0]
        return found[1] is None or spec.datatype.kind != "bytes" or spec.name == "b64"

    def _rows(self, instances: Any, body: Buffer) -> Sequence[Tensor]:
        if not self._types.has_rows:
            raise InputError(f"instances: model {self.config.name!r} takes no batches and has no rows; send inputs")
        if type(instances) is tuple:
            return instances
        if not instances:
            raise InputError("instances: empty; send at least one")
        if type(instances[0]) is not self._types.row:
            return (self._readers[0].tensor(instances, "instances"),)
        self._refuse_repetition(body, len(instances))
        tensors = []
        for reader, getter in zip(self._readers, self._getters, strict=True):
            values = list(map(getter, instances))
            if reader.spec.optional and _is_left_out(values, reader.spec.name):
                continue
            tensors.append(reader.tensor(values, "instances", named=True))
        return tensors

    def _columns(self, inputs: Any, body: Buffer) -> Sequence[Tensor]:
        if type(inputs) is tuple:
            return inputs
        if type(inputs) is not self._types.columns:
            return (self._readers[0].tensor(inputs, "inputs"),)
        self._refuse_repetition(body, 1)
        tensors = []
        for reader, getter in zip(self._readers, self._getters, strict=True):
            values = getter(inputs)
            if values is not _UNSET:
                tensors.append(reader.tensor(values, f"inputs.{reader.spec.name}"))
        return tensors

    def _refuse_repetition(self, body: Buffer, objects: int) -> None:
        """Raises: InputError for an object with one name twice, of which the decoder kept the last.

        Cost: one search of the body for each input; a parse in Python only where that cannot tell.
        """
        text = bytes(body)
        if b"\\" not in text and all(text.count(orjson.dumps(reader.spec.name)) <= objects for reader in self._readers):
            return
        try:
            json.loads(text, object_pairs_hook=_refuse_repeated, parse_int=_ignore, parse_float=_ignore)
        except RecursionError:
            raise InputError("request body: nested too deeply") from None

    # Answers

    def encode(
        self, request: InferenceRequest, response: InferenceResponse
    ) -> tuple[None, Sequence[Buffer] | LargeJson]:
        """The body of an answer; a long one is a LargeJson, which has not been checked yet. Raises: NotAcceptable."""
        specs, outputs = self.config.outputs, response.outputs
        if request.reply_format is PredictForm.ROWS:
            for spec, array in zip(specs, outputs, strict=True):
                if array.ndim == 0 or len(array) != len(outputs[0]):
                    raise NotAcceptable(
                        f"output {spec.name!r} of shape {list(array.shape)} has no row for each prediction; send inputs"
                    )
            if len(specs) == 1:
                return None, _bare(b'{"predictions":', specs[0], outputs[0])
            if are_large(specs, outputs, len(specs) * len(outputs[0])):
                return None, LargeJson((b'{"predictions":[', large_objects(specs, outputs), b"]}"))
            return None, (b'{"predictions":%b}' % encode_objects(specs, outputs),)
        if len(specs) == 1:
            return None, _bare(b'{"outputs":', specs[0], outputs[0])
        if are_large(specs, outputs, len(specs)):
            return None, LargeJson(_columns(specs, outputs, large_output))
        return None, _columns(specs, outputs, encode_output)


def _is_left_out(values: list[Any], name: str) -> bool:
    """Whether no row has the optional input. Raises: InputError when only some have it."""
    absent = [value is _UNSET for value in values]
    if True not in absent:
        return False
    if False not in absent:
        return True
    odd = absent.index(not absent[0])
    has, lacks = ("lacks", "has") if absent[0] else ("has", "lacks")
    raise InputError(f"instances[{odd}]: {lacks} the input {name!r}, which instances[0] {has}; name the same in each")


def _refuse_repeated(pairs: Iterable[tuple[str, object]]) -> None:
    names = set()
    for name, _ in pairs:
        if name in names:
            raise InputError(f"request body: {name[:64]!r} is given twice in one object; send each input once")
        names.add(name)


def _ignore(text: str) -> None:
    """Numbers have been checked before."""


def _bare(before: bytes, spec: TensorSpec, array: Array) -> Sequence[Buffer] | LargeJson:
    if not (spec.plain and 0 < array.size <= SMALL) and are_large((spec,), (array,)):
        return LargeJson((before, large_output(spec, array), b"}"))
    return before, encode_output(spec, array), b"}"


def _columns(
    specs: Sequence[TensorSpec], outputs: Sequence[Array], column: Callable[[TensorSpec, Array], Column]
) -> list[bytes | Column]:
    parts: list[bytes | Column] = []
    before = b'{"outputs":{'
    for spec, array in zip(specs, outputs, strict=True):
        parts += (b"%b%b:" % (before, orjson.dumps(spec.name)), column(spec, array))
        before = b","
    parts.append(b"}}")
    return parts
