"""Predict requests in, predictions out: rows, columns, and whatever is neither."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import InputError, NotAcceptable, Unsupported
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY, InferenceResponse
from guepard.core.tensor import TensorSpec
from guepard.protocols.brain_float import from_float32
from guepard.protocols.large_json import LargeJson
from guepard.protocols.v1_json import PredictForm, V1Codec
from guepard.protocols.v1_messages import has_tensors
from tests.unit.protocols.requests import config_of

FREE = TensorSpec("x", "FP32", [-1])
ONE = TensorSpec("x", "INT32", [1])
TEXT = TensorSpec("t", "BYTES", [1])
WORD = TensorSpec("t", "BYTES", [])
SCALAR = TensorSpec("x", "FP32", [])
EXTRA = TensorSpec("e", "INT32", [], optional=True)


def codec_of(*inputs: TensorSpec, batched: bool = True, outputs: Sequence[TensorSpec] | None = None) -> V1Codec:
    return V1Codec(config_of(inputs, outputs, 8 if batched else 0))


def decode(codec: V1Codec, body: Any) -> InferenceRequest:
    text = body if isinstance(body, bytes | str) else json.dumps(body)
    return codec.decode_json(text.encode() if isinstance(text, str) else text, NOBODY, 0)


def arrays(codec: V1Codec, body: Any) -> dict[str, Any]:
    """What the tensors hold, by name, with their shapes."""
    return {tensor.name: (list(tensor.array.shape), tensor.array.tolist()) for tensor in decode(codec, body).tensors}


# Requests


@pytest.mark.parametrize(
    "body",
    [
        {"instances": [[1, 2], [3, 4]]},
        {"instances": [{"x": [1, 2]}, {"x": [3, 4]}]},
        {"inputs": [[1, 2], [3, 4]]},
        {"inputs": {"x": [[1, 2], [3, 4]]}},
        {"signature_name": "", "instances": [[1, 2], [3, 4]]},
        {"signature_name": "serving_default", "instances": [[1, 2], [3, 4]]},
        {"signature_name": None, "instances": [[1, 2], [3, 4]], "another": {"deep": [1]}},
        '{ "instances" : [ \n { "x" : [ 1 , 2 ] } , {"x":[3,4]} ] }',
        '{"instances":[{"\\u0078":[1,2]},{"x":[3,4]}]}',
    ],
)
def test_one_input_in_every_form(body: Any) -> None:
    assert arrays(codec_of(FREE), body) == {"x": ([2, 2], [[1.0, 2.0], [3.0, 4.0]])}


@pytest.mark.parametrize(
    "body",
    [
        {"instances": [{"x": 1, "t": "a"}, {"x": 2, "t": "b"}]},
        {"instances": [{"t": ["a"], "x": [1]}, {"x": [2], "t": ["b"]}]},
        {"inputs": {"x": [1, 2], "t": [["a"], [{"b64": "Yg=="}]]}},
    ],
)
def test_several_inputs_by_name(body: Any) -> None:
    assert arrays(codec_of(ONE, TEXT), body) == {"x": ([2, 1], [[1], [2]]), "t": ([2, 1], [[b"a"], [b"b"]])}


@pytest.mark.parametrize("datatype", list(DATATYPES))
def test_datatypes_are_the_declared_ones(datatype: str) -> None:
    value: Any = {"BOOL": True, "BYTES": "é"}.get(datatype, 3)
    codec = codec_of(TensorSpec("x", datatype, [2]))
    for body in ({"instances": [[value, value]]}, {"inputs": {"x": [[value, value]]}}):
        (tensor,) = decode(codec, body).tensors
        assert (tensor.datatype, tensor.array.dtype) == (datatype, DATATYPES[datatype].dtype)
        assert tensor.array.shape == (1, 2)
        expected = {"BF16": from_float32(np.array(3.0, np.float32)), "BYTES": "é".encode()}.get(datatype, value)
        assert (tensor.array == expected).all()


@pytest.mark.parametrize(
    ("spec", "batched", "body", "shape"),
    [
        (TensorSpec("x", "FP32", [1, 1]), True, {"instances": [1, 2]}, [2, 1, 1]),
        (TensorSpec("x", "FP32", [1, 1]), True, {"instances": [[[1]], [[2]]]}, [2, 1, 1]),
        (TensorSpec("x", "FP32", [3, 1]), False, {"instances": [1, 2, 3]}, [3, 1]),
        (FREE, False, {"instances": [1, 2, 3]}, [3]),
        (FREE, False, {"inputs": []}, [0]),
        (FREE, True, {"instances": [[], []]}, [2, 0]),
        (TensorSpec("x", "FP32", [-1, 4]), True, {"instances": [[], []]}, [2, 0, 4]),
        (TensorSpec("x", "BYTES", [-1, 4]), True, {"instances": [{"x": []}]}, [1, 0, 4]),
        (SCALAR, True, {"instances": [1, 2]}, [2]),
        (SCALAR, False, {"inputs": 1}, []),
        (SCALAR, False, {"inputs": {"x": 1}}, []),
        (WORD, False, {"inputs": {"b64": ""}}, []),
        (WORD, True, {"instances": [{"b64": ""}, "a"]}, [2]),
        (WORD, True, {"instances": [{"t": {"b64": ""}}]}, [1]),
        (TensorSpec("b64", "BYTES", []), True, {"instances": [{"b64": "AA=="}]}, [1]),
    ],
)
def test_the_shape_is_what_the_nesting_says(spec: TensorSpec, batched: bool, body: Any, shape: list[int]) -> None:
    (tensor,) = decode(codec_of(spec, batched=batched), body).tensors
    assert list(tensor.array.shape) == shape


def test_an_optional_input_is_left_out_of_all_rows_or_of_none() -> None:
    codec = codec_of(ONE, EXTRA)
    assert arrays(codec, {"instances": [{"x": 1}]}) == {"x": ([1, 1], [[1]])}
    assert arrays(codec, {"instances": [{"x": 1, "e": 2}]})["e"] == ([1], [2])
    assert arrays(codec, {"inputs": {"x": [1]}}) == {"x": ([1, 1], [[1]])}
    with pytest.raises(InputError, match=r"instances\[2\]: lacks the input 'e', which instances\[0\] has"):
        decode(codec, {"instances": [{"x": 1, "e": 2}, {"x": 1, "e": 2}, {"x": 1}]})


def test_parameters_mean_what_they_mean_in_v2() -> None:
    body = {"instances": [[1]], "parameters": {"timeout": 5, "priority": 1, "mine": "yes"}}
    request = decode(codec_of(FREE), body)
    assert (request.timeout_ns, request.priority, request.parameters) == (5_000, 1, {"mine": "yes"})
    assert request.reply_format is PredictForm.ROWS
    assert decode(codec_of(FREE), {"inputs": [[1]]}).reply_format is PredictForm.COLUMNS


@pytest.mark.parametrize(
    ("inputs", "body", "text"),
    [
        ([FREE], "", "request body: empty"),
        ([FREE], "[]", "request body: expected object, got array"),
        ([FREE], "{", "request body: not valid JSON"),
        ([FREE], '{"instances":[[NaN]]}', "request body: not valid JSON"),
        ([FREE], b'{"signature_name":"\xff"}', "not valid"),
        ([FREE], {}, "neither instances nor inputs"),
        ([FREE], {"instances": [[1]], "inputs": [[1]]}, "both instances and inputs"),
        ([FREE], {"instances": []}, "instances: empty"),
        ([FREE], {"instances": {}}, "instances: expected array, got object"),
        ([FREE], {"instances": None}, "instances: expected array, got null"),
        ([FREE], {"instances": [None]}, r"instances\[0\]: expected array, got null"),
        ([FREE], {"inputs": 3}, "inputs: expected array, got int"),
        ([FREE], {"inputs": []}, r"inputs: empty arrays do not tell the shape of input 'x', which is \[-1, -1\]"),
        ([FREE], {"signature_name": "other", "instances": [[1]]}, "unknown signature 'other'"),
        ([FREE], {"signature_name": 3, "instances": [[1]]}, r"signature_name: expected str \| null, got int"),
        ([FREE], {"parameters": [], "instances": [[1]]}, "parameters: expected object"),
        ([FREE], {"parameters": {"timeout": -1}, "instances": [[1]]}, "parameters.timeout"),
        ([FREE], {"parameters": {"binary_data_output": True}, "instances": [[1]]}, "answers in JSON"),
        ([FREE], {"instances": [[1, 2], [3]]}, r"instances\[1\]: expected 2 items here as in the first, got 1"),
        ([FREE], {"instances": [[1, 2], 3]}, r"instances\[1\]: expected array, got int"),
        ([FREE], {"instances": [[1, [2]]]}, r"instances\[0\]\[1\]: expected float, got array"),
        ([FREE], {"instances": [{"x": [1]}, [2]]}, r"instances\[1\]: expected object, got array; model 'm' has input"),
        ([FREE], {"instances": [{"x": [1]}, {"y": [2]}]}, r"instances\[1\]: object contains unknown field y"),
        ([FREE], {"instances": [{"x": [1, 2]}, {"x": [1]}]}, r"instances\[1\].x: expected 2 items"),
        ([FREE], '{"instances":[{"x":[1],"x":[1]}]}', "'x' is given twice"),
        ([FREE], '{"inputs":{"x":[[1]],"\\u0078":[[1]]}}', "'x' is given twice"),
        ([FREE], {"instances": [["3"]]}, r"instances\[0\]\[0\]: expected float, got str"),
        ([FREE], {"instances": [[1e39]]}, r"instances\[0\]\[0\]: expected float <"),
        ([FREE], {"instances": [{"b64": "AA=="}]}, r"instances\[0\]: object contains unknown field b64"),
        ([ONE], {"instances": [1.5]}, r"instances\[0\]: expected int \| array, got float"),
        ([ONE], {"instances": [[2**31]]}, r"instances\[0\]\[0\]: expected int <= 2147483647"),
        ([ONE], {"instances": [1, [2]]}, r"instances\[1\]: some rows are in brackets and some are not"),
        ([ONE, TEXT], {"instances": [1]}, r"instances\[0\]: expected object, got int; model 'm' has inputs 'x', 't'"),
        ([ONE, TEXT], {"instances": [{"x": 1}]}, r"instances\[0\]: object missing required field t"),
        ([ONE, TEXT], {"inputs": {"x": [1]}}, "inputs: object missing required field t; model 'm' has inputs 'x', 't'"),
        ([ONE, TEXT], {"inputs": [[1]]}, "inputs: expected object, got array"),
        ([TEXT], {"instances": [{"b64": "a"}]}, r"instances\[0\].b64: invalid base64"),
        ([TEXT], {"instances": [{"b64": "AA==", "c": 1}]}, r"instances\[0\]: object contains unknown field c"),
        ([TEXT], {"instances": ["a", 3]}, r"instances\[1\]: expected str"),
        ([TEXT], {"instances": [["a", "b"], ["c"]]}, r"instances\[1\]: expected 2 items"),
        ([TensorSpec("x", "UINT64", [1])], {"instances": [[1], [2**64]]}, r"instances\[1\]\[0\]: 18446744073709551616"),
        (
            [TensorSpec("x", "UINT64", [])],
            {"instances": [{"x": 2**64}]},
            r"instances\[0\].x: 18446744073709551616 does",
        ),
        ([FREE], '{"instances":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply|expected float, got array"),
        ([FREE], '{"more":' + "[" * 100_000 + "]" * 100_000 + ',"instances":[[1]]}', "request body: nested too deeply"),
    ],
)
def test_whatever_is_wrong_is_named(inputs: list[TensorSpec], body: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        decode(codec_of(*inputs), body)


def test_an_unknown_name_is_not_quoted_at_length() -> None:
    with pytest.raises(InputError) as caught:
        decode(codec_of(ONE, TEXT), {"instances": [{"n" * 100_000: 1}]})
    assert len(caught.value.message) < 1_000


def test_a_model_without_a_first_dimension_has_no_rows() -> None:
    for codec in (codec_of(SCALAR, batched=False), codec_of(FREE, EXTRA, batched=False)):
        with pytest.raises(InputError, match="takes no batches and has no rows; send inputs"):
            decode(codec, {"instances": [1]})


def test_names_that_json_would_have_to_escape_are_left_to_v2() -> None:
    with pytest.raises(Unsupported, match="use the V2 infer route"):
        codec_of(TensorSpec('a"b', "FP32", [1]))


def test_binary_data_belongs_to_v2() -> None:
    with pytest.raises(InputError, match="predict reads JSON alone"):
        codec_of(FREE).decode_binary(b"{}", 2, NOBODY, 0)


@pytest.mark.parametrize(
    ("body", "is_v2"),
    [
        ({"inputs": [{"name": "x"}]}, True),
        ('{"inputs" : [ { } ]}', True),
        ({"inputs": []}, True),
        ({"inputs": [[1]]}, False),
        ({"inputs": ["a"]}, False),
        ({"inputs": [{"b64": "AA=="}]}, False),
        ({"inputs": {"x": [1]}}, False),
        ({"instances": [{"x": 1}]}, False),
        ("", False),
        ("{", False),
        ("[]", False),
    ],
)
def test_which_bodies_are_v2(body: Any, is_v2: bool) -> None:
    assert has_tensors((body if isinstance(body, str) else json.dumps(body)).encode()) is is_v2


# Answers


def encoded(form: PredictForm, outputs: Sequence[tuple[TensorSpec, Any]]) -> str:
    codec = codec_of(FREE, outputs=[spec for spec, _ in outputs])
    request = InferenceRequest((), NOBODY, 0)
    request.reply_format = form
    length, parts = codec.encode(request, InferenceResponse(codec.config, [array for _, array in outputs]))
    assert length is None
    assert not isinstance(parts, LargeJson)
    return b"".join(parts).decode()


A = (TensorSpec("a", "FP32", [2]), np.array([[0.1, 2], [3, 4]], np.float32))
B = (TensorSpec("b", "BYTES", []), np.array([b"x", "é".encode()], object))
C = (TensorSpec("c", "BF16", []), from_float32(np.array([1.5, -2], np.float32)))
D = (TensorSpec("d_bytes", "BYTES", [1]), np.array([[b"\xff"], [b""]], object))
E = (TensorSpec("e", "BOOL", []), np.array([True, False]))
F = (TensorSpec("f", "FP16", []), np.array([1.5, 2], np.float16))


def test_one_output_is_bare() -> None:
    assert encoded(PredictForm.ROWS, [A]) == '{"predictions":[[0.1,2.0],[3.0,4.0]]}'
    assert encoded(PredictForm.COLUMNS, [A]) == '{"outputs":[[0.1,2.0],[3.0,4.0]]}'
    assert encoded(PredictForm.ROWS, [B]) == '{"predictions":["x","é"]}'
    assert encoded(PredictForm.ROWS, [C]) == '{"predictions":[1.5,-2.0]}'
    assert encoded(PredictForm.ROWS, [D]) == '{"predictions":[[{"b64":"/w=="}],[{"b64":""}]]}'


@pytest.mark.parametrize("dtype", [np.int64, np.longlong])  # equal, and yet two types to numpy
def test_integers_of_any_spelling_are_written(dtype: Any) -> None:
    y = TensorSpec("y", "INT64", [])
    assert encoded(PredictForm.ROWS, [(y, np.array([1, 2], dtype)), E]) == (
        '{"predictions":[{"y":1,"e":true},{"y":2,"e":false}]}'
    )
    assert encoded(PredictForm.COLUMNS, [(y, np.array(1, dtype))]) == '{"outputs":1}'


def test_several_outputs_have_names() -> None:
    assert encoded(PredictForm.ROWS, [A, B, C, D, E, F]) == (
        '{"predictions":[{"a":[0.1,2.0],"b":"x","c":1.5,"d_bytes":[{"b64":"/w=="}],"e":true,"f":1.5},'
        '{"a":[3.0,4.0],"b":"é","c":-2.0,"d_bytes":[{"b64":""}],"e":false,"f":2.0}]}'
    )
    assert encoded(PredictForm.COLUMNS, [A, B]) == '{"outputs":{"a":[[0.1,2.0],[3.0,4.0]],"b":["x","é"]}}'


@pytest.mark.parametrize("datatype", ["FP16", "FP32", "FP64", "BF16", "BOOL", "INT64"])
def test_an_output_without_dimensions_is_a_value(datatype: str) -> None:
    one = from_float32(np.array(1, np.float32)) if datatype == "BF16" else np.array(1, DATATYPES[datatype].dtype)
    text = encoded(PredictForm.COLUMNS, [(TensorSpec("y", datatype, []), one)])
    assert json.loads(text) == {"outputs": 1}


@pytest.mark.parametrize("form", list(PredictForm))
@pytest.mark.parametrize("more", [[], [E]])
@pytest.mark.parametrize("datatype", ["FP16", "FP32", "FP64", "BF16"])
def test_what_json_has_no_number_for_is_refused(form: PredictForm, more: list[Any], datatype: str) -> None:
    plain = np.array([1, np.nan], np.float32)
    array = from_float32(plain) if datatype == "BF16" else plain.astype(DATATYPES[datatype].dtype)
    with pytest.raises(NotAcceptable, match="output 'y' holds NaN or an infinity"):
        encoded(form, [(TensorSpec("y", datatype, []), array), *more])


@pytest.mark.parametrize("form", list(PredictForm))
@pytest.mark.parametrize("more", [[], [E]])
def test_bytes_that_are_no_text_are_refused(form: PredictForm, more: list[Any]) -> None:
    with pytest.raises(NotAcceptable, match="output 'y' holds bytes that are not UTF-8"):
        encoded(form, [(TensorSpec("y", "BYTES", []), np.array([b"ok", b"\xff"], object)), *more])


def test_predictions_need_a_row_of_each_output() -> None:
    with pytest.raises(NotAcceptable, match=r"output 'y' of shape \[3\] has no row for each prediction"):
        encoded(PredictForm.ROWS, [E, (TensorSpec("y", "INT8", [3]), np.zeros(3, np.int8))])
    with pytest.raises(NotAcceptable, match=r"output 'y' of shape \[\] has no row"):
        encoded(PredictForm.ROWS, [(TensorSpec("y", "INT8", []), np.array(3, np.int8))])
