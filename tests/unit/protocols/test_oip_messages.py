"""The JSON envelope of a request: fields, bounds, and errors that speak of the request's own fields."""

from typing import Any

import msgspec
import pytest

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import InputError
from guepard.protocols.oip_messages import ELEMENT_TYPES, MAX_RANK, data_decoder, known_datatype, refuse
from tests.unit.protocols.requests import decode_json, only, spelled, tensor


def test_every_datatype_has_a_type_for_its_elements() -> None:
    assert ELEMENT_TYPES.keys() == DATATYPES.keys()
    assert all(known_datatype("x", name) == name for name in DATATYPES)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"inputs": {}}, "inputs: expected array, got object"),
        ({"inputs": None}, "inputs: expected array, got null"),
        ({"inputs": [[]]}, "inputs[0]: expected object, got array"),
        ({"inputs": ["x"]}, "inputs[0]: expected object, got str"),
        ({"inputs": [{}]}, "inputs[0]: object missing required field name"),
        ({"inputs": [{"name": "x", "shape": [1], "data": [1]}]}, "inputs[0]: object missing required field datatype"),
        ({"inputs": [{"name": "x", "datatype": "FP32"}]}, "inputs[0]: object missing required field shape"),
        ({"inputs": [tensor("FP32", [1], [1], name=5)]}, "inputs[0].name: expected str, got int"),  # type: ignore[arg-type]
        ({"inputs": [tensor("FP33", [1], [1])]}, "input 'x': unknown datatype 'FP33'; use one of BOOL, UINT8"),
        ({"inputs": [tensor("fp32", [1], [1])]}, "input 'x': unknown datatype 'fp32'"),
        ({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32"}]}, "input 'x': no data; send data as JSON or"),
        ({"id": 42}, "id: expected str | null, got int"),
        ({"id": ["42"]}, "id: expected str | null, got array"),
        ({"parameters": []}, "parameters: expected object | null, got array"),
        ({"outputs": {}}, "outputs: expected array | null, got object"),
        ({"outputs": ["y"]}, "outputs[0]: expected object, got str"),
        ({"outputs": [{}]}, "outputs[0]: object missing required field name"),
        ({"outputs": [{"name": None}]}, "outputs[0].name: expected str, got null"),
        ({"outputs": [{"name": "y", "parameters": 1}]}, "outputs[0].parameters: expected object | null, got int"),
    ],
)
def test_the_field_at_fault_is_named(fields: dict[str, Any], reason: str) -> None:
    body = {"inputs": [tensor("FP32", [1], [1])]} | fields
    with pytest.raises(InputError) as caught:
        decode_json(body)
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("-1", "shape: expected array, got str"),
        (None, "shape: expected array, got null"),
        ({}, "shape: expected array, got object"),
        (5, "shape: expected array, got int"),
        ([1.5], "shape[0]: expected int, got float"),
        ([1.0], "shape[0]: expected int, got float"),
        ([1, "1"], "shape[1]: expected int, got str"),
        ([True], "shape[0]: expected int, got bool"),
        ([None], "shape[0]: expected int, got null"),
        ([[1]], "shape[0]: expected int, got array"),
        ([-1], "shape[0]: expected int >= 0"),
        ([2**63], "shape[0]: expected int <= 9223372036854775807"),
        ([1] * (MAX_RANK + 1), "shape: expected array of length <= 32"),
    ],
)
def test_a_shape_is_a_short_list_of_whole_numbers(shape: Any, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_json({"inputs": [tensor("FP32", shape, [1])]})
    assert str(caught.value) == f"inputs[0].{reason}"


def test_the_longest_shape_is_read() -> None:
    assert only(decode_json({"inputs": [tensor("FP32", [1] * MAX_RANK, [1])]})).ndim == MAX_RANK


@pytest.mark.timeout(10)
def test_a_million_dimensions_cost_no_time() -> None:
    """The product of that many dimensions would take minutes to compute and more digits than Python prints."""
    shape = ",".join(["9223372036854775807"] * 1_000_000)
    with pytest.raises(InputError, match="shape: expected array of length <= 32"):
        decode_json(spelled("[1]", shape=f"[{shape}]"))


@pytest.mark.parametrize("where", ["request", "input"])
def test_parameters_have_a_bound(where: str) -> None:
    """Each is looked at in turn: two million in 25 MB held everybody up for seconds."""

    def body(count: int) -> dict[str, Any]:
        parameters = {"parameters": {f"p{number}": 1 for number in range(count)}}
        given = tensor("FP32", [1, 1], [1])
        return {"inputs": [given], **parameters} if where == "request" else {"inputs": [given | parameters]}

    assert only(decode_json(body(1_024))).tolist() == [[1]]
    with pytest.raises(InputError, match="parameters: expected object of length <= 1024"):
        decode_json(body(1_025))


def test_text_that_errors_quote_has_a_bound() -> None:
    long = "x" * 2_000
    for body in (
        {"inputs": [tensor("FP32", [1], [1], name=long)]},
        {"inputs": [tensor(long, [1], [1])]},
        {"inputs": [], "outputs": [{"name": long}]},
        {"inputs": [], "parameters": {long: None}},
        {"inputs": [], "id": long * 5},
    ):
        with pytest.raises(InputError, match="expected str of length <= ") as caught:
            decode_json(body)
        assert len(str(caught.value)) < 100


def test_fields_that_are_not_part_of_the_protocol_are_passed_over() -> None:
    request = decode_json({"inputs": [tensor("FP32", [1], [1]) | {"extra": {}}], "more": [1]})
    assert only(request).tolist() == [1.0]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "request body: empty; send an inference request as JSON"),
        (b'{"inputs":[', "request body: not valid JSON (Input data was truncated)"),
        (b"null", "request body: expected object, got null"),
        (b"[]", "request body: expected object, got array"),
        (b"{}", "request body: object missing required field inputs"),
        (b'{"inputs":[]}, x', "request body: not valid JSON (JSON is malformed: trailing characters"),
        (b"\xef\xbb\xbf{}", "request body: not valid JSON (JSON is malformed: invalid character (byte 0))"),
        (b'{"inputs":[],"id":"\xff"}', "request body: not valid JSON (Invalid UTF-8 encoded string)"),
        (b'{"inputs":[],"id":"\\ud800"}', "request body: not valid JSON"),
        (b'{"inputs":[],"id":"\\udc00x"}', "request body: not valid JSON"),
    ],
)
def test_what_is_no_request_at_all(body: bytes, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_json(body)
    assert str(caught.value).startswith(reason)


def test_decoders_are_made_once() -> None:
    assert data_decoder("FP32", 3) is data_decoder("FP32", 3)
    assert data_decoder("FP32", 3) is not data_decoder("FP32", 2)


@pytest.mark.parametrize(
    ("error", "where", "reason"),
    [
        (RecursionError(), "request body", "request body: nested too deeply"),
        (
            msgspec.ValidationError("Expected `int`, got `str` - at `$[2]`"),
            "input 'x': data",
            "input 'x': data[2]: exp",
        ),
        (msgspec.ValidationError("Expected `int`, got `str`"), "request body", "request body: expected int, got str"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "request body", "request body: not valid UTF-8 (bad at"),
    ],
)
def test_what_a_decoder_says_is_told_in_the_request_s_words(error: Exception, where: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        refuse(error, where)
    assert str(caught.value).startswith(reason)


def test_what_is_not_the_decoder_s_is_not_hidden() -> None:
    with pytest.raises(KeyError):
        refuse(KeyError("x"))
