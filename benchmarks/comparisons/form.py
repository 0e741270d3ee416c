"""Forms in which one row travels to a server and back, written apart from every server's own code."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.models import ReferenceModel
from benchmarks.serving import grpc_payload
from benchmarks.serving.payload import (
    Answer,
    Payload,
    binary_payload,
    json_payload,
    numbers,
    output_values,
    predict_payload,
)

Kind = Literal["json", "binary", "grpc"]
Values = NDArray[np.float32]
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """`payload` of a gRPC form is the message; its path is that of the method."""

    name: str
    kind: Kind
    payload: Callable[[ReferenceModel], Payload]
    values: Callable[[Answer], Values]
    models: frozenset[str] | None = None
    """For which it is measured; None: for all."""

    def suits(self, model: str) -> bool:
        return self.models is None or model in self.models


V2_JSON = Form(name="V2 JSON", kind="json", payload=json_payload, values=output_values)
V2_BINARY = Form(name="V2 binary", kind="binary", payload=binary_payload, values=output_values)
PREDICT = Form(
    name="predict JSON", kind="json", payload=predict_payload, values=output_values, models=frozenset(("mlp",))
)
GRPC = Form(
    name="gRPC",
    kind="grpc",
    payload=lambda model: Payload(grpc_payload.PATH, grpc_payload.request_message(model), {}),
    values=lambda answer: grpc_payload.output_values(answer.body),
    models=frozenset(("mlp",)),
)


def plain_json(path: str, *, output: str = "output") -> Form:
    """{"data": row} and {output: row}: what the documents of servers without a protocol of their own show.

    `path` may hold {model}, in every form.
    """

    def values(answer: Answer) -> Values:
        return np.array(json.loads(answer.body)[output], np.float32).ravel()

    return Form(name="JSON", kind="json", payload=lambda model: _plain(model, path, _nested(model)), values=values)


def batch_json(path: str) -> Form:
    """{"data": [row]} and [row]: for servers whose batches are rows of the caller's own."""

    def values(answer: Answer) -> Values:
        return np.array(json.loads(answer.body), np.float32).ravel()

    return Form(name="JSON", kind="json", payload=lambda model: _plain(model, path, [_nested(model)]), values=values)


def raw_bytes(path: str) -> Form:
    """The row's bytes and nothing else, both ways."""

    def payload(model: ReferenceModel) -> Payload:
        return Payload(
            path.format(model=model.name), model.sample(1).tobytes(), {"Content-Type": "application/octet-stream"}
        )

    return Form(name="raw bytes", kind="binary", payload=payload, values=lambda answer: from_bytes(answer.body))


def from_bytes(data: bytes) -> Values:
    return np.frombuffer(data, np.float32)


def _plain(model: ReferenceModel, path: str, data: list[Any]) -> Payload:
    return Payload(path.format(model=model.name), json.dumps({"data": data}, separators=(",", ":")).encode(), _JSON)


def _nested(model: ReferenceModel) -> list[Any]:
    """The row's numbers in lists of its shape."""
    row = model.sample(1)[0]
    found: list[Any] = np.array(numbers(row), object).reshape(row.shape).tolist()
    return found
