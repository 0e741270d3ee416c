"""A call as the bytes of each protocol that carries tensors, and where in them a number may be rewritten.

The codecs are those of the server (`protocols`), read the other way round.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from guepard.bench.targets.tensor_call import TensorCall
from guepard.bench.targets.unique_spots import bytes_spot, marked, moved, number_spot, text_candidate
from guepard.core.errors import ConfigurationError, NotAcceptable
from guepard.core.tensor import Array, Tensor, TensorSpec
from guepard.measure.load.plan import UniqueSpot
from guepard.protocols import oip_json
from guepard.protocols.grpc_messages import message_class
from guepard.protocols.grpc_reply import varint
from guepard.protocols.oip_binary import encode_array

_RAW_FIELD = b"\x3a"  # raw_input_contents of ModelInferRequest


class Body(NamedTuple):
    """`json_bytes`: how long the JSON before binary tensors is; 0 where there are none."""

    data: bytes
    spot: UniqueSpot | None
    json_bytes: int = 0


def json_body(call: TensorCall) -> Body:
    """OIP in JSON, with flat data. Raises: ConfigurationError for values that JSON cannot carry."""
    text = _Text(call, [tensor.array.size for tensor in call.tensors])
    text.add(b'{"inputs":[')
    for index, tensor in enumerate(call.tensors):
        head = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.array.shape)}
        text.add((b"," if index else b"") + orjson.dumps(head)[:-1] + b',"data":')
        text.add_values(index, tensor.array.reshape(-1))
        text.add(b"}")
    text.add(b"]" + _tail(call, call.parameters) + b"}")
    return text.body()


def predict_body(call: TensorCall) -> Body:
    """V1's rows where all inputs have as many, else its columns. Raises: ConfigurationError."""
    counts = {tensor.array.shape[0] if tensor.array.ndim else None for tensor in call.tensors}
    alone = len(call.tensors) == 1
    in_rows = len(counts) == 1 and None not in counts
    text = _Text(call, [_run(tensor.array.shape[1:] if in_rows else tensor.array.shape) for tensor in call.tensors])
    if in_rows:
        text.add(b'{"instances":[')
        for row in range(call.tensors[0].array.shape[0]):
            text.add(b"," if row else b"")
            text.add_object(lambda array, row=row: array[row, ...], alone)  # type: ignore[misc]
        text.add(b"]")
    else:
        text.add(b'{"inputs":')
        text.add_object(lambda array: array, alone)
    if call.parameters:
        text.add(b',"parameters":' + orjson.dumps(dict(call.parameters)))
    text.add(b"}")
    return text.body()


def binary_body(call: TensorCall) -> Body:
    """OIP with Triton's binary tensor data extension, in and out."""
    parts = [bytes(encode_array(tensor.datatype, tensor.array)) for tensor in call.tensors]
    inputs = [
        {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.array.shape),
            "parameters": {"binary_data_size": len(part)},
        }
        for tensor, part in zip(call.tensors, parts, strict=True)
    ]
    parameters = {**call.parameters, "binary_data_output": True}
    head = b'{"inputs":' + orjson.dumps(inputs) + _tail(call, parameters) + b"}"
    found = bytes_spot(call.tensors, call.generated)
    spot = moved(found.spot, len(head) + sum(map(len, parts[: found.tensor]))) if found else None
    return Body(b"".join((head, *parts)), spot, len(head))


def grpc_message(call: TensorCall, model: str, version: str | None) -> Body:
    """A `ModelInferRequest` with raw contents. Raises: ConfigurationError for parameters that gRPC cannot carry."""
    request = message_class("inference.ModelInferRequest")(model_name=model, model_version=version or "")
    for tensor in call.tensors:
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.array.shape)
    for name in call.outputs:
        request.outputs.add(name=name)
    for key, value in call.parameters.items():
        _set(request.parameters[key], value, f"{call.where}: parameter {key!r}")
    pieces = [request.SerializeToString()]
    found = bytes_spot(call.tensors, call.generated)
    spot = None
    for index, tensor in enumerate(call.tensors):
        data = bytes(encode_array(tensor.datatype, tensor.array))
        pieces.append(_RAW_FIELD + varint(len(data)))
        if found and found.tensor == index:
            spot = moved(found.spot, sum(map(len, pieces)))
        pieces.append(data)
    return Body(b"".join(pieces), spot)


class _Text:
    """JSON that is being written, and the place of its spot."""

    def __init__(self, call: TensorCall, runs: Sequence[int]) -> None:
        """`runs`: how many elements of each tensor lie side by side, without brackets between them."""
        self._call = call
        self._chosen = text_candidate(call.tensors, runs) if call.generated else None
        self._parts: list[bytes] = []
        self._size = 0
        self._spot: UniqueSpot | None = None

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)

    def add_object(self, part: Callable[[Array], Array], alone: bool) -> None:
        """The values of the only input, or an object of the values of all; of each array its `part`."""
        for index, tensor in enumerate(self._call.tensors):
            if not alone:
                self.add((b"," if index else b"{") + orjson.dumps(tensor.name) + b":")
            self.add_values(index, part(tensor.array))
        if not alone:
            self.add(b"}")

    def add_values(self, index: int, array: Array) -> None:
        """Nested as `array` is; the first elements of the chosen tensor are where the spot goes, once."""
        tensor = self._call.tensors[index]
        text = _encoded(self._call.where, tensor, array)
        if index == self._chosen and self._spot is None:
            text, spot = marked(tensor, array, text)
            self._spot = moved(spot, self._size)
        self.add(text)

    def body(self) -> Body:
        data = b"".join(self._parts)
        if self._spot is None and not self._call.generated:
            return Body(data, number_spot(data, b'"data":'))
        return Body(data, self._spot)


def _run(shape: tuple[int, ...]) -> int:
    return min(shape) and shape[-1] if shape else 1


def _encoded(where: str, tensor: Tensor, array: Array) -> bytes:
    spec = TensorSpec(tensor.name, tensor.datatype, array.shape)
    try:
        if array.ndim == 0:
            return oip_json.encode_array(spec, np.asarray(array).reshape(1))[1:-1]
        return oip_json.encode_array(spec, np.ascontiguousarray(array))
    except NotAcceptable:
        kind = "bytes that are not UTF-8" if tensor.datatype == "BYTES" else "NaN or an infinity"
        raise ConfigurationError(
            f"{where}: input {tensor.name!r} holds {kind}, which JSON cannot carry; use --protocol oip-binary"
        ) from None


def _tail(call: TensorCall, parameters: Any) -> bytes:
    """The rest of an OIP request's JSON, behind its inputs."""
    tail = b""
    if call.outputs:
        tail += b',"outputs":' + orjson.dumps([{"name": name} for name in call.outputs])
    if parameters:
        tail += b',"parameters":' + orjson.dumps(dict(parameters))
    return tail


def _set(parameter: Any, value: Any, said: str) -> None:
    match value:
        case bool():
            parameter.bool_param = value
        case int() if -(2**63) <= value < 2**63:
            parameter.int64_param = value
        case float():
            parameter.double_param = value
        case str():
            parameter.string_param = value
        case _:
            raise ConfigurationError(f"{said} is {str(value)[:40]!r}; gRPC carries text, numbers and booleans")
