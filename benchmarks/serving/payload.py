"""Requests of the Open Inference Protocol V2 and of predict, and what their answers hold.

Written apart from Guepard's own codecs on purpose: a benchmark that shared them could not notice that they are wrong.
"""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.models import ReferenceModel

HEADER_LENGTH = "Inference-Header-Content-Length"
DATATYPES = {"float32": "FP32", "int64": "INT64", "uint8": "UINT8"}


@dataclass(frozen=True, slots=True)
class Payload:
    """One POST request."""

    path: str
    body: bytes
    headers: Mapping[str, str]


def json_payload(model: ReferenceModel) -> Payload:
    """One row of the model's sample, its values as JSON numbers."""
    row = model.sample(1)
    tensor = _tensor(model, row) | {"data": numbers(row)}
    return Payload(_path(model), _compact({"inputs": [tensor]}), {"Content-Type": "application/json"})


def predict_payload(model: ReferenceModel) -> Payload:
    """The same row, of one dimension, as TensorFlow Serving's clients send it."""
    body = _compact({"instances": [numbers(model.sample(1))]})
    return Payload(f"/v1/models/{model.name}:predict", body, {"Content-Type": "application/json"})


def binary_payload(model: ReferenceModel) -> Payload:
    """One row of the model's sample as a binary tensor, asking for a binary answer."""
    row = model.sample(1)
    header = _compact(
        {
            "inputs": [_tensor(model, row) | {"parameters": {"binary_data_size": row.nbytes}}],
            "outputs": [{"name": model.output_name, "parameters": {"binary_data": True}}],
        }
    )
    headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(len(header))}
    return Payload(_path(model), header + row.tobytes(), headers)


class Answer(NamedTuple):
    """What came back, with the status 200."""

    body: bytes
    header_length: int | None
    """Of the JSON before binary tensors; None where all is JSON."""


def exchange(port: int, payload: Payload) -> Answer:
    """Send the request once. Raises: AssertionError unless the answer is a 200; OSError; HTTPException."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", payload.path, payload.body, dict(payload.headers))
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    assert response.status == 200, f"{payload.path} answered {response.status}: {body[:300]!r}"
    length = response.getheader(HEADER_LENGTH)
    return Answer(body, None if length is None else int(length))


def ask(port: int, payload: Payload) -> NDArray[np.float32]:
    """Send the request once and return the values of its only output.

    Raises: AssertionError unless the answer is a 200 with one FP32 output.
    """
    return output_values(exchange(port, payload))


def output_values(answer: Answer) -> NDArray[np.float32]:
    """The values of the only output, of V2 in either form or of predict."""
    body, header_length = answer
    head = json.loads(body[:header_length])
    if "predictions" in head:
        return np.array(head["predictions"], np.float32).ravel()
    (output,) = head["outputs"]
    assert output["datatype"] == "FP32", output
    if header_length is None:
        return np.array(output["data"], np.float32).ravel()
    return np.frombuffer(body[header_length:], np.float32)


def numbers(row: NDArray[Any]) -> list[float | int]:
    """Through text of the shortest form: a float32 spelled as a double would be twice as long as what clients send."""
    return [float(str(value)) if row.dtype.kind == "f" else int(value) for value in row.flat]


def _path(model: ReferenceModel) -> str:
    return f"/v2/models/{model.name}/infer"


def _tensor(model: ReferenceModel, rows: NDArray[Any]) -> dict[str, Any]:
    return {"name": model.input_name, "shape": list(rows.shape), "datatype": DATATYPES[str(rows.dtype)]}


def _compact(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
