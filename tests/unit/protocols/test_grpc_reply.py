"""InferenceResponse to ModelInferResponse, as Triton's own messages read it."""

from typing import Any

import numpy as np
import pytest
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined]
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY, InferenceResponse
from guepard.core.tensor import Array, TensorSpec
from guepard.protocols.brain_float import from_float32
from guepard.protocols.grpc_contents import FIELDS
from guepard.protocols.grpc_reply import ReplyWriter, varint
from guepard.protocols.reply_format import BINARY, JSON
from tests.unit.protocols.requests import config_of

OUTPUTS = (TensorSpec("y", "FP32", [-1]), TensorSpec("text", "BYTES", [-1]))
VALUES: tuple[Array, ...] = (
    np.array([[1.5, -2.0]], np.float32),
    np.array([[b"hello", b""]], object),
)


def request_of(**fields: Any) -> InferenceRequest:
    request = InferenceRequest((), NOBODY, 0)
    request.reply_format = BINARY
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def written(request: InferenceRequest, outputs: Any = VALUES, specs: Any = OUTPUTS, **fields: Any) -> Any:
    config = config_of(outputs=specs)
    data = ReplyWriter(config).write(request, InferenceResponse(config, outputs, **fields))
    return service_pb2.ModelInferResponse.FromString(data)


def test_raw_contents() -> None:
    answer = written(request_of())
    assert (answer.model_name, answer.model_version, answer.id) == ("m", "1", "")
    assert [(each.name, each.datatype, list(each.shape)) for each in answer.outputs] == [
        ("y", "FP32", [1, 2]),
        ("text", "BYTES", [1, 2]),
    ]
    assert list(answer.raw_output_contents) == [VALUES[0].tobytes(), b"\5\0\0\0hello\0\0\0\0"]
    assert not any(each.HasField("contents") for each in answer.outputs)


def test_only_what_was_asked_for_in_that_order() -> None:
    answer = written(request_of(requested_outputs=("text",)))
    assert ([each.name for each in answer.outputs], len(answer.raw_output_contents)) == (["text"], 1)
    answer = written(request_of(requested_outputs=("text", "y")))
    assert [each.name for each in answer.outputs] == ["text", "y"]
    assert answer.raw_output_contents[1] == VALUES[0].tobytes()


@pytest.mark.parametrize("text", ["42", 'a "quote"\n😀', "x" * 4_000])
def test_the_id_comes_back(text: str) -> None:
    assert written(request_of(id=text)).id == text


def test_parameters_keep_their_types() -> None:
    given_parameters = {"flag": True, "count": 3, "ratio": 0.5, "text": "a"}
    answer = written(request_of(), parameters=given_parameters)
    values = {key: getattr(value, value.WhichOneof("parameter_choice")) for key, value in answer.parameters.items()}
    assert values == given_parameters
    assert answer.parameters["flag"].WhichOneof("parameter_choice") == "bool_param"


TYPED: dict[str, Array] = {
    "BOOL": np.array([True, False]),
    "INT8": np.array([-128, 127], np.int8),
    "INT16": np.array([-1, 1], np.int16),
    "INT32": np.array([-1, 2**31 - 1], np.int32),
    "INT64": np.array([-1, 2**63 - 1], np.int64),
    "UINT8": np.array([0, 255], np.uint8),
    "UINT16": np.array([0, 65_535], np.uint16),
    "UINT32": np.array([0, 2**32 - 1], np.uint32),
    "UINT64": np.array([0, 2**64 - 1], np.uint64),
    "FP16": np.array([0.5, np.inf], np.float16),
    "FP32": np.array([0.5, -np.inf], np.float32),
    "FP64": np.array([0.1, 1e300]),
    "BF16": from_float32(np.array([0.5, 256], np.float32)),
    "BYTES": np.array([b"a", b"\xff"], object),
}


@pytest.mark.parametrize("datatype", FIELDS)
def test_typed_contents(datatype: str) -> None:
    answer = written(request_of(reply_format=JSON), (TYPED[datatype],), (TensorSpec("y", datatype, [-1]),))
    assert not answer.raw_output_contents
    (output,) = answer.outputs
    values = list(getattr(output.contents, FIELDS[datatype]))
    expected = [0.5, 256.0] if datatype == "BF16" else TYPED[datatype].tolist()
    assert (values, list(output.shape)) == (expected, [2])


def test_large_and_strided_outputs() -> None:
    large = np.arange(200_000, dtype=np.float32).reshape(2, -1)
    for array in (large, large[:, ::2], large.T):
        answer = written(request_of(requested_outputs=("y",)), (array, VALUES[1]))
        assert answer.raw_output_contents[0] == array.tobytes()
        assert tuple(answer.outputs[0].shape) == array.shape


def test_a_shape_seen_before_is_written_anew() -> None:
    config = config_of(outputs=OUTPUTS[:1])
    writer = ReplyWriter(config)
    for value in (1, 2):
        data = writer.write(request_of(), InferenceResponse(config, (np.array([value], np.float32),)))
        assert np.frombuffer(service_pb2.ModelInferResponse.FromString(data).raw_output_contents[0], "<f4") == value


@given(st.integers(0, 2**40))
def test_integers_are_written_as_protobuf_does(value: int) -> None:
    assert varint(value) == _VarintBytes(value)
