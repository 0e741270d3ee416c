"""One model's reader and writer: whole requests in, whole answers out."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from guepard.core.errors import InputError, NotAcceptable
from guepard.core.request import NO_PARAMETERS, InferenceRequest
from guepard.core.response import NOBODY, InferenceResponse
from guepard.core.tensor import TensorSpec
from guepard.protocols.large_json import LargeJson
from guepard.protocols.oip_codec import OipCodec
from guepard.protocols.reply_format import BINARY, JSON
from tests.unit.protocols.requests import (
    X,
    binary_tensor,
    config_of,
    decode_binary,
    decode_json,
    only,
    tensor,
)

PAIR = (TensorSpec("a", "FP32", [-1]), TensorSpec("b", "INT64", [-1]))
A = np.array([[1.5, 2.0]], np.float32)
B = np.array([[7, 8]], np.int64)


def answer(
    codec: OipCodec, outputs: Sequence[Any], parameters: dict[str, Any] | None = None, **fields: Any
) -> tuple[int | None, bytes]:
    """Encode `outputs` as the answer to a request that says what `fields` say."""
    request = InferenceRequest((), NOBODY, 0)
    request.reply_format = JSON
    for name, value in fields.items():
        setattr(request, name, value)
    length, parts = codec.encode(request, InferenceResponse(codec.config, outputs, parameters))
    assert not isinstance(parts, LargeJson)
    return length, b"".join(parts)


# Requests


def test_a_request_s_own_words_are_kept() -> None:
    body = {
        "id": 'a"\n😀',
        "inputs": [tensor("FP32", [1, 2], [1, 2])],
        "outputs": [{"name": "x", "parameters": {"binary_data": True}}],
        "parameters": {"timeout": 5, "priority": 1, "mine": "yes"},
    }
    request = decode_json(body)
    assert (request.id, request.requested_outputs) == ('a"\n😀', ("x",))
    assert (request.timeout_ns, request.priority, request.parameters) == (5_000, 1, {"mine": "yes"})
    assert request.reply_format.is_binary("x")


@pytest.mark.parametrize("empty", [{}, {"id": None, "parameters": None, "outputs": None}, {"parameters": {}}])
def test_what_a_request_leaves_out_is_open(empty: dict[str, Any]) -> None:
    request = decode_json({"inputs": [tensor("FP32", [1], [1])]} | empty)
    assert (request.id, request.requested_outputs, request.reply_format) == (None, None, JSON)
    assert (request.timeout_ns, request.priority, request.parameters) == (0, 0, NO_PARAMETERS)


def test_inputs_may_differ_in_datatype_and_order() -> None:
    body = {"inputs": [tensor("INT64", [1], [2**53 + 1], name="b"), tensor("FP32", [1], [0.5], name="a")]}
    request = decode_json(body, OipCodec(config_of(PAIR)))
    assert [(each.name, each.array.tolist()) for each in request.tensors] == [("b", [2**53 + 1]), ("a", [0.5])]


def test_two_inputs_of_one_name_are_left_for_the_signature_to_refuse() -> None:
    request = decode_json({"inputs": [tensor("FP32", [1], [1]), tensor("FP32", [1], [2])]})
    assert [each.array.tolist() for each in request.tensors] == [[1.0], [2.0]]


@pytest.mark.parametrize("of", [X, TensorSpec("x", "INT8", [-1])], ids=["short road", "long road"])
def test_both_roads_lead_to_the_same_request(of: TensorSpec) -> None:
    body = {"id": "7", "inputs": [tensor("FP32", [2, 2], [1, 2, 3, 4])], "parameters": {"p": 1}}
    request = decode_json(body, OipCodec(config_of([of])))
    assert only(request).tolist() == [[1, 2], [3, 4]]
    assert (request.id, request.parameters) == ("7", {"p": 1})


def test_binary_and_json_inputs_mix() -> None:
    head = {"inputs": [binary_tensor("FP32", [1, 2], 8, "a"), tensor("INT64", [1, 2], [[7, 8]], name="b")]}
    request = decode_binary(head, A.tobytes(), OipCodec(config_of(PAIR)))
    assert [each.array.tolist() for each in request.tensors] == [A.tolist(), B.tolist()]


def test_binary_inputs_lie_one_after_another() -> None:
    head = {"inputs": [binary_tensor("INT64", [1, 2], 16, "b"), binary_tensor("FP32", [1, 2], 8, "a")]}
    request = decode_binary(head, B.tobytes() + A.tobytes(), OipCodec(config_of(PAIR)))
    assert [each.array.tolist() for each in request.tensors] == [B.tolist(), A.tolist()]


def test_a_body_of_json_alone_may_say_how_long_it_is() -> None:
    assert only(decode_binary({"inputs": [tensor("FP32", [1], [1])]})).tolist() == [1.0]


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview], ids=lambda kind: kind.__name__)
def test_bodies_come_as_the_connection_has_them(wrap: Any) -> None:
    head = json.dumps({"inputs": [binary_tensor("FP32", [2], 8)]}).encode()
    codec = OipCodec(config_of())
    request = codec.decode_binary(wrap(head + A.tobytes()), len(head), NOBODY, 0)
    assert only(request).tolist() == [1.5, 2.0]
    assert only(codec.decode_binary(wrap(A.tobytes()), 0, NOBODY, 0)).tolist() == A.tolist()
    body = json.dumps({"inputs": [tensor("FP32", [2], [1.5, 2])]}).encode()
    assert only(codec.decode_json(wrap(body), NOBODY, 0)).tolist() == [1.5, 2.0]


def with_parameters(**parameters: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "parameters": parameters}]}


@pytest.mark.parametrize(
    ("head", "data", "reason"),
    [
        (
            with_parameters(binary_data_size=5),
            b"\0" * 4,
            "request body: the binary_data_size values add up to 5 bytes, but 4 follow the JSON part",
        ),
        (
            with_parameters(binary_data_size=4),
            b"\0" * 5,
            "request body: the binary_data_size values add up to 4 bytes, but 5 follow the JSON part",
        ),
        (with_parameters(), b"\0" * 4, "input 'x': no data; send data as JSON or binary_data_size and the bytes"),
        (with_parameters(binary_data_size=-1), b"", "inputs[0].parameters.binary_data_size: expected a whole number"),
        (with_parameters(binary_data_size="4"), b"\0" * 4, "inputs[0].parameters.binary_data_size: expected a whole"),
        (with_parameters(binary_data_size=4.0), b"\0" * 4, "inputs[0].parameters.binary_data_size: expected a whole"),
        (with_parameters(binary_data_size=True), b"\0", "inputs[0].parameters.binary_data_size: expected a whole"),
        (with_parameters(binary_data_size=None), b"", "inputs[0].parameters.binary_data_size: expected a whole"),
        (
            with_parameters(binary_data_size="9" * 99_999),
            b"",
            "inputs[0].parameters.binary_data_size: expected a whole",
        ),
        (
            {"inputs": [binary_tensor("FP32", [1], 4) | {"data": [1]}]},
            b"\0" * 4,
            "input 'x': both data and binary_data_size; send one of them",
        ),
        ({"inputs": [binary_tensor("FP33", [1], 4)]}, b"\0" * 4, "input 'x': unknown datatype 'FP33'"),
        ({"inputs": [binary_tensor("FP32", [0, 2**63 - 1], 0)]}, b"", "input 'x': shape [0, 9223372036854775807] is"),
        (
            {"inputs": [binary_tensor("FP32", [1] * 33, 4)]},
            b"\0" * 4,
            "inputs[0].shape: expected array of length <= 32",
        ),
        ("{", b"", "request body: not valid JSON"),
    ],
)
def test_sizes_that_do_not_add_up_are_refused(head: Any, data: bytes, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_binary(head, data)
    assert str(caught.value).startswith(reason)
    assert len(str(caught.value)) < 300


def test_a_header_longer_than_the_body_is_refused() -> None:
    with pytest.raises(InputError, match="Inference-Header-Content-Length: 9 is more than the body's 2 bytes"):
        OipCodec(config_of()).decode_binary(b"{}", 9, NOBODY, 0)


def test_binary_data_needs_its_header() -> None:
    with pytest.raises(InputError, match=r"inputs\[0\].parameters.binary_data_size: .* Inference-Header-Content-Leng"):
        decode_json(with_parameters(binary_data_size=4))


# A raw body


def raw(body: bytes, *inputs: TensorSpec, max_batch_size: int = 8) -> InferenceRequest:
    codec = OipCodec(config_of(inputs, max_batch_size=max_batch_size))
    return codec.decode_binary(body, 0, NOBODY, 0)


@pytest.mark.parametrize(
    ("dims", "max_batch_size", "shape"),
    [([4], 8, [1, 4]), ([-1], 8, [1, 4]), ([2, -1], 8, [1, 2, 2]), ([4], 0, [4]), ([-1, 4], 0, [1, 4])],
)
def test_a_raw_body_fills_the_only_input(dims: list[int], max_batch_size: int, shape: list[int]) -> None:
    request = raw(bytes(16), TensorSpec("x", "FP32", dims), max_batch_size=max_batch_size)
    assert list(only(request).shape) == shape
    assert (request.reply_format, request.id, request.requested_outputs) == (BINARY, None, None)


@pytest.mark.parametrize("text", [b"any bytes", b""])
def test_a_raw_body_is_one_element_of_bytes(text: bytes) -> None:
    assert only(raw(text, TensorSpec("x", "BYTES", [1]))).tolist() == [[text]]
    assert only(raw(text, TensorSpec("x", "BYTES", [-1]), max_batch_size=0)).tolist() == [text]


@pytest.mark.parametrize(
    ("inputs", "size", "reason"),
    [
        (PAIR, 8, "needs a model with one input, 'm' has 2"),
        ((TensorSpec("x", "FP32", [-1, -1]),), 8, "needs at most one free dimension, 'x' has [-1, -1]"),
        ((TensorSpec("x", "FP32", [-1]),), 7, "input 'x': 7 bytes do not fill shape [-1] of FP32"),
        ((TensorSpec("x", "FP32", [3, -1]),), 16, "input 'x': 16 bytes do not fill shape [3, -1] of FP32"),
        ((TensorSpec("x", "FP32", [0, -1]),), 16, "input 'x': 16 bytes do not fill shape [0, -1] of FP32"),
        ((TensorSpec("x", "FP32", [3]),), 16, "input 'x': FP32 of shape [1, 3] takes 12 bytes"),
        ((TensorSpec("x", "BYTES", [2]),), 16, "input 'x': shape [1, 2] needs 2 elements"),
    ],
)
def test_a_raw_body_that_fits_no_input_is_refused(inputs: Sequence[TensorSpec], size: int, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        raw(bytes(size), *inputs)
    assert reason in str(caught.value)


# Answers


def test_an_answer_as_json() -> None:
    length, body = answer(OipCodec(config_of(PAIR)), [A, B], id='q"')
    assert length is None
    assert json.loads(body) == {
        "model_name": "m",
        "model_version": "1",
        "id": 'q"',
        "outputs": [
            {"name": "a", "datatype": "FP32", "shape": [1, 2], "data": [1.5, 2.0]},
            {"name": "b", "datatype": "INT64", "shape": [1, 2], "data": [7, 8]},
        ],
    }


def test_an_answer_to_a_request_without_an_id_has_none() -> None:
    assert "id" not in json.loads(answer(OipCodec(config_of(PAIR)), [A, B])[1])


@pytest.mark.parametrize("request_id", ["", " ", "null"])
def test_an_id_without_much_in_it_is_one_all_the_same(request_id: str) -> None:
    assert json.loads(answer(OipCodec(config_of(PAIR)), [A, B], id=request_id)[1])["id"] == request_id


def test_parameters_of_an_answer() -> None:
    _, body = answer(OipCodec(config_of(PAIR)), [A, B], {"sequence_end": True})
    assert json.loads(body)["parameters"] == {"sequence_end": True}


def test_an_answer_as_bytes() -> None:
    length, body = answer(OipCodec(config_of(PAIR)), [A, B], reply_format=BINARY)
    assert length is not None
    assert body[length:] == A.tobytes() + B.tobytes()
    outputs = json.loads(body[:length])["outputs"]
    assert [output["parameters"]["binary_data_size"] for output in outputs] == [8, 16]
    assert all("data" not in output for output in outputs)


def test_an_answer_of_both_forms() -> None:
    reply_format = BINARY._replace(overrides={"a": False})
    length, body = answer(OipCodec(config_of(PAIR)), [A, B], reply_format=reply_format)
    assert length is not None
    first, second = json.loads(body[:length])["outputs"]
    assert (first["data"], second["parameters"]) == ([1.5, 2.0], {"binary_data_size": 16})
    assert body[length:] == B.tobytes()


def test_an_answer_where_binary_was_asked_for_no_output_that_is_left() -> None:
    reply_format = JSON._replace(overrides={"b": True})
    length, body = answer(OipCodec(config_of(PAIR)), [A, B], reply_format=reply_format, requested_outputs=("a",))
    assert length is None
    assert json.loads(body)["outputs"][0]["data"] == [1.5, 2.0]


def test_outputs_come_in_the_order_they_were_asked_for() -> None:
    codec = OipCodec(config_of(PAIR))
    for wanted in (("b",), ("b", "a")):
        _, body = answer(codec, [A, B], requested_outputs=wanted)
        assert tuple(output["name"] for output in json.loads(body)["outputs"]) == wanted


def test_only_what_was_asked_for_must_be_writable() -> None:
    nan = np.array([[np.nan]], np.float32)
    codec = OipCodec(config_of(PAIR))
    assert json.loads(answer(codec, [nan, B], requested_outputs=("b",))[1])["outputs"][0]["data"] == [7, 8]
    with pytest.raises(NotAcceptable, match="output 'a' holds NaN"):
        answer(codec, [nan, B])
    length, body = answer(codec, [nan, B], reply_format=BINARY)
    assert length is not None
    assert body[length : length + 4] == nan.tobytes()


def test_answers_of_ever_new_shapes_stay_right() -> None:
    """What is remembered per shape has a bound; beyond it answers are as right as before."""
    codec = OipCodec(config_of())
    for size in [*range(400), 3, 399]:
        output = json.loads(answer(codec, [np.zeros((1, size), np.float32)])[1])["outputs"][0]
        assert (output["shape"], len(output["data"])) == ([1, size], size)


def test_many_choices_of_outputs_are_told_apart_and_all_remain_all() -> None:
    specs = [TensorSpec(f"o{number}", "INT64", [-1]) for number in range(20)]
    codec = OipCodec(config_of(outputs=tuple(specs)))
    outputs = [np.array([[number]], np.int64) for number in range(20)]
    pairs = [(f"o{left}", f"o{right}") for left in range(20) for right in range(20) if left != right]
    assert len(pairs) > 256  # more than are kept
    for names in [*pairs, *pairs[:3]]:
        told = json.loads(answer(codec, outputs, requested_outputs=names)[1])["outputs"]
        assert [output["name"] for output in told] == list(names)
        assert [output["data"] for output in told] == [[int(name[1:])] for name in names]
    assert len(json.loads(answer(codec, outputs)[1])["outputs"]) == 20
    length, body = answer(codec, outputs, requested_outputs=pairs[5], reply_format=BINARY)
    assert length is not None
    assert np.frombuffer(body[length:], np.int64).tolist() == [int(name[1:]) for name in pairs[5]]
