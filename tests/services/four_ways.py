"""One inference request and the four ways in which it can be sent; what came of it is told in the same words."""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import ErrorCode
from guepard.protocols.brain_float import from_float32
from guepard.protocols.error_body import STATUSES
from guepard.testing.running_server import RunningServer
from tests.services.grpc_calls import add_input, call, set_parameter

JSON_FORM, BINARY, RAW, TYPED = FORMS = ("JSON", "binary", "raw", "typed")
AS_BYTES = (BINARY, RAW)
AS_NUMBERS = (JSON_FORM, TYPED)


class Given(NamedTuple):
    """An input. `values` are flat; `data` replaces the bytes that they would be as binary or raw data."""

    datatype: str
    shape: Sequence[int]
    values: Sequence[Any] = ()
    name: str = "x"
    data: bytes | None = None


class Ask(NamedTuple):
    """`headers` are metadata over gRPC."""

    model: str
    inputs: Sequence[Given]
    outputs: Sequence[str] = ()
    id: str | None = None
    parameters: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
    version: str | None = None


class Outcome(NamedTuple):
    """What a caller is told, whatever the protocol. `outputs` are name, datatype, shape and bytes."""

    code: str
    text: str = ""
    comes_again: bool = False
    outputs: tuple[tuple[str, str, tuple[int, ...], bytes], ...] = ()
    id: str = ""


def send(form: str, server: RunningServer, channel: grpc.Channel, ask: Ask) -> Outcome:
    if form in (RAW, TYPED):
        return send_grpc(channel, ask, raw=form == RAW)
    return send_http(server, ask, binary=form == BINARY)


def send_http(server: RunningServer, ask: Ask, *, binary: bool) -> Outcome:
    inputs, chunks = [], []
    for given in ask.inputs:
        entry: dict[str, Any] = {"name": given.name, "datatype": given.datatype, "shape": list(given.shape)}
        if binary:
            chunks.append(to_bytes(given))
            entry["parameters"] = {"binary_data_size": len(chunks[-1])}
        else:
            entry["data"] = list(given.values)
        inputs.append(entry)
    document: dict[str, Any] = {"inputs": inputs}
    if ask.id is not None:
        document["id"] = ask.id
    if ask.outputs:
        document["outputs"] = [{"name": name} for name in ask.outputs]
    parameters = dict(ask.parameters) | ({"binary_data_output": True} if binary else {})
    if parameters:
        document["parameters"] = parameters
    head = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))} if binary else {}
    version = f"/versions/{ask.version}" if ask.version is not None else ""
    path = f"/v2/models/{ask.model}{version}/infer"
    answer = server.request("POST", path, head + b"".join(chunks), headers | dict(ask.headers))
    if answer.status != 200:
        code = answer.json["code"]
        assert answer.status == STATUSES[ErrorCode(code)].http
        return Outcome(code, answer.json["error"], "retry_after_ms" in answer.json)
    length = int(answer.headers.get("inference-header-content-length", len(answer.body)))
    document, rest = json.loads(answer.body[:length]), answer.body[length:]
    outputs = []
    for output in document["outputs"]:
        if binary:
            size = output["parameters"]["binary_data_size"]
            data, rest = rest[:size], rest[size:]
        else:
            data = to_bytes(Given(output["datatype"], (), output["data"]))
        outputs.append((output["name"], output["datatype"], tuple(output["shape"]), data))
    assert not rest
    return Outcome("ok", outputs=tuple(outputs), id=document.get("id", ""))


def send_grpc(channel: grpc.Channel, ask: Ask, *, raw: bool) -> Outcome:
    request = service_pb2.ModelInferRequest(model_name=ask.model, model_version=ask.version or "", id=ask.id or "")
    for given in ask.inputs:
        contents = {"raw": to_bytes(given)} if raw else {"typed": as_typed(given)}
        add_input(request, given.name, given.datatype, given.shape, **contents)
    for name in ask.outputs:
        request.outputs.add(name=name)
    for key, value in (dict(ask.parameters) | ({} if raw else {"binary_data_output": False})).items():
        set_parameter(request.parameters[key], value)
    metadata = [(key.lower(), value) for key, value in ask.headers.items()]
    answer = call(channel, request.SerializeToString(), metadata=metadata)
    if answer.code != "OK":
        code = answer.trailing["guepard-code"]
        assert answer.code == STATUSES[ErrorCode(code)].grpc
        assert answer.trailing["x-request-id"]
        return Outcome(code, answer.details, "guepard-retry-after-ms" in answer.trailing)
    response = answer.infer
    outputs = []
    for index, output in enumerate(response.outputs):
        if raw:
            data = response.raw_output_contents[index]
        else:
            (values,) = [list(values) for _, values in output.contents.ListFields()] or [[]]
            data = to_bytes(Given(output.datatype, (), values))
        outputs.append((output.name, output.datatype, tuple(output.shape), data))
    assert len(response.raw_output_contents) == (len(outputs) if raw else 0)
    return Outcome("ok", outputs=tuple(outputs), id=response.id)


def to_bytes(given: Given) -> bytes:
    if given.data is not None:
        return given.data
    if given.datatype == "BYTES":
        texts = [text.encode() if isinstance(text, str) else text for text in given.values]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    if given.datatype == "BF16":
        return from_float32(np.array(given.values, np.float32)).tobytes()
    return np.array(given.values, DATATYPES[given.datatype].dtype).tobytes() if given.datatype in DATATYPES else b""


def as_typed(given: Given) -> Sequence[Any] | None:
    """None where contents cannot be said, as for a datatype that is none."""
    if given.datatype == "BYTES":
        return [text.encode() if isinstance(text, str) else text for text in given.values]
    return given.values if given.datatype in DATATYPES else None
