"""Calls of the gRPC port with messages of Triton's own client package, which is not what the server reads them with."""

import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

from guepard.core.tensor import Array
from guepard.protocols.brain_float import to_float32

SERVICE = "/inference.GRPCInferenceService"
INFER = f"{SERVICE}/ModelInfer"

CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP16": "fp32_contents",
    "BF16": "fp32_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}

Metadata = Sequence[tuple[str, str | bytes]]


class Answer(NamedTuple):
    """How a call ended. `details` is empty when `code` is OK, `message` when it is not."""

    code: str
    details: str
    message: bytes
    trailing: Mapping[str, str]

    @property
    def infer(self) -> Any:
        assert self.code == "OK", self
        return service_pb2.ModelInferResponse.FromString(self.message)


def call(
    channel: grpc.Channel,
    message: bytes,
    method: str = INFER,
    metadata: Metadata = (),
    timeout_s: float = 15.0,
    compression: grpc.Compression | None = None,
) -> Answer:
    """One unary call, of bytes."""
    try:
        reply, done = channel.unary_unary(method).with_call(
            message, timeout=timeout_s, metadata=metadata, compression=compression
        )
    except grpc.RpcError as error:
        return Answer(error.code().name, error.details() or "", b"", _plain(error.trailing_metadata()))
    return Answer("OK", "", reply, _plain(done.trailing_metadata()))


def _plain(metadata: Iterable[tuple[str, str]] | None) -> dict[str, str]:
    return dict(metadata or ())


def infer_message(
    model: str,
    datatype: str,
    shape: Sequence[int],
    raw: bytes | None = None,
    typed: Sequence[Any] | None = None,
    name: str = "x",
    **fields: Any,
) -> bytes:
    """A request with one input."""
    request = service_pb2.ModelInferRequest(model_name=model, **fields)
    add_input(request, name, datatype, shape, raw, typed)
    data: bytes = request.SerializeToString()
    return data


def add_input(
    request: Any,
    name: str,
    datatype: str,
    shape: Sequence[int],
    raw: bytes | None = None,
    typed: Sequence[Any] | None = None,
) -> None:
    tensor = request.inputs.add(name=name, datatype=datatype, shape=shape)
    if raw is not None:
        request.raw_input_contents.append(raw)
    if typed is not None:
        getattr(tensor.contents, CONTENTS[datatype]).extend(typed)


def typed_values(datatype: str, array: Array) -> list[Any]:
    """What a client puts into the typed contents for `array`."""
    return list((to_float32(array) if datatype == "BF16" else array).ravel().tolist())


def array_of_contents(datatype: str, output: Any) -> list[Any]:
    """What typed contents hold, which must lie in the field that `datatype` has."""
    (field,) = [field.name for field, _ in output.contents.ListFields()] or [CONTENTS[datatype]]
    assert field == CONTENTS[datatype]
    return list(getattr(output.contents, field))


def set_parameter(parameter: Any, value: bool | int | float | str) -> None:
    if isinstance(value, bool):
        parameter.bool_param = value
    elif isinstance(value, int):
        parameter.int64_param = value
    elif isinstance(value, float):
        parameter.double_param = value
    else:
        parameter.string_param = value


def int_row(model: str, value: int, datatype: str = "INT64", **fields: Any) -> bytes:
    """A request of one row with one integer."""
    dtype = {"INT64": np.int64, "INT32": np.int32}[datatype]
    return infer_message(model, datatype, [1, 1], np.array([value], dtype).tobytes(), **fields)


# HTTP/2 without a library, for what no client library sends

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS = 0, 1, 3, 4
_END_HEADERS, _END_STREAM = 4, 1


def http2_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def _text(value: bytes) -> bytes:
    """A string of HPACK, without Huffman coding."""
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest = len(value) - 127
    length = b"\x7f"
    while rest >= 128:
        length += bytes([rest % 128 + 128])
        rest //= 128
    return length + bytes([rest]) + value


def http2_call(body: bytes, path: bytes = INFER.encode(), extra: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """The bytes of a connection that makes one gRPC call."""
    return http2_calls(1, body, path, extra)


def http2_calls(count: int, body: bytes, path: bytes, extra: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """The bytes of a connection that makes `count` gRPC calls at once."""
    headers = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": path,
        b":authority": b"localhost",
        b"te": b"trailers",
        b"content-type": b"application/grpc",
    }
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in [*headers.items(), *extra])
    message = b"\0" + len(body).to_bytes(4) + body
    frames = [_PREFACE, http2_frame(_SETTINGS, 0, 0, b"")]
    for stream in range(1, 2 * count, 2):
        frames.append(http2_frame(_HEADERS, _END_HEADERS, stream, block))
        frames.append(http2_frame(_DATA, _END_STREAM, stream, message))
    return b"".join(frames)


def http2_ends(received: Iterator[bytes], count: int) -> Counter[str]:
    """How so many calls ended: with `trailers`, or `reset` without a status."""
    ends: Counter[str] = Counter()
    data = b""
    while ends.total() < count and (piece := next(received, b"")):
        data += piece
        while len(data) >= 9 and len(data) >= (size := 9 + int.from_bytes(data[:3])):
            kind, flags = data[3], data[4]
            if kind == _RESET:
                ends["reset"] += 1
            elif kind == _HEADERS and flags & _END_STREAM:
                ends["trailers"] += 1
            data = data[size:]
    return ends


def http2_data(received: bytes) -> bytes:
    """What the DATA frames of an answer hold."""
    data = b""
    while len(received) >= 9:
        length, kind = int.from_bytes(received[:3]), received[3]
        if kind == _DATA:
            data += received[9 : 9 + length]
        received = received[9 + length :]
    return data


def exchange(port: int, data: bytes, until: bytes, timeout_s: float = 5.0) -> bytes:
    """Send `data` and read until `until` has come, or the other side closes."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
        try:
            connection.sendall(data)
            while until not in received and (piece := connection.recv(65_536)):
                received += piece
        except ConnectionError:
            pass
    return received
