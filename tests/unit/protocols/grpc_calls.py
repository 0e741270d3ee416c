"""`ModelInferRequest`s as Triton's own messages write them, and reading them, for the tests of this folder."""

from collections.abc import Sequence
from typing import Any

from tritonclient.grpc import service_pb2

from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY
from guepard.protocols.grpc_request import RequestReader


def call(*raw: bytes, **fields: Any) -> Any:
    """A request to model `m` with `raw` contents."""
    return service_pb2.ModelInferRequest(model_name="m", raw_input_contents=raw, **fields)


def declared(message: Any, datatype: str, shape: Sequence[int], name: str = "x", **contents: Any) -> Any:
    """Add an input; `contents` are fields of InferTensorContents."""
    tensor = message.inputs.add(name=name, datatype=datatype, shape=shape)
    if contents:
        tensor.contents.CopyFrom(service_pb2.InferTensorContents(**contents))
    return tensor


def read(message: Any, reader: RequestReader | None = None) -> InferenceRequest:
    """The request that `message`, or its bytes, becomes."""
    data = message if isinstance(message, bytes) else message.SerializeToString()
    head, data, spans = (reader or RequestReader()).read(data)
    return head.request(data, spans, NOBODY, 0)
