"""Requests as bytes, and a codec that reads them, for the tests of this folder."""

import json
from collections.abc import Sequence
from typing import Any

from guepard.core.model_config import DynamicBatching, ModelConfig, TimeoutPolicy
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY
from guepard.core.tensor import Array, Tensor, TensorSpec
from guepard.protocols.oip_codec import OipCodec

X = TensorSpec("x", "FP32", [-1])


def config_of(
    inputs: Sequence[TensorSpec] = (X,), outputs: Sequence[TensorSpec] | None = None, max_batch_size: int = 8
) -> ModelConfig:
    return ModelConfig(
        name="m",
        version="1",
        platform="identity",
        backend="identity",
        inputs=tuple(inputs),
        outputs=tuple(inputs if outputs is None else outputs),
        max_batch_size=max_batch_size,
        instance_count=1,
        execution="inline",
        dynamic_batching=DynamicBatching(),
        timeout=TimeoutPolicy(),
        max_concurrency=16,
        idempotent=True,
        decoupled=False,
        parameters={},
    )


def tensor(datatype: str, shape: Any, data: Any, name: str = "x") -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "data": data}


def binary_tensor(datatype: str, shape: Any, size: Any, name: str = "x") -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": size}}


def spelled(data: str, datatype: str = "FP32", shape: str = "[1]") -> str:
    """A request whose data and shape are spelled as no JSON writer would."""
    return f'{{"inputs":[{{"name":"x","shape":{shape},"datatype":"{datatype}","data":{data}}}]}}'


def decode_json(body: Any, codec: OipCodec | None = None) -> InferenceRequest:
    """Decode `body`: bytes or text as they are, anything else as JSON."""
    return (codec or OipCodec(config_of())).decode_json(_bytes(body), NOBODY, 0)


def decode_binary(head: Any, data: bytes = b"", codec: OipCodec | None = None) -> InferenceRequest:
    text = _bytes(head)
    return (codec or OipCodec(config_of())).decode_binary(text + data, len(text), NOBODY, 0)


def only(request: InferenceRequest) -> Array:
    """The array of the only tensor of `request`."""
    (found,) = request.tensors
    assert isinstance(found, Tensor)
    return found.array


def _bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()
