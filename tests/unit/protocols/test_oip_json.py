"""Tensors as JSON: what is read, what is refused and in which words, what is written."""

from typing import Any

import numpy as np
import pytest

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import InputError, NotAcceptable
from guepard.core.tensor import TensorSpec
from guepard.protocols.brain_float import from_float32
from guepard.protocols.oip_codec import OipCodec
from guepard.protocols.oip_json import encode_array, shared_datatype
from tests.unit.protocols.requests import config_of, decode_json, only, spelled, tensor


def request_of(datatype: str, shape: Any, data: Any) -> dict[str, Any]:
    return {"inputs": [tensor(datatype, shape, data)]}


def codec_of(datatype: str) -> OipCodec:
    return OipCodec(config_of([TensorSpec("x", datatype, [-1])]))


LIMITS: dict[str, list[Any]] = {
    "BOOL": [True, False, 1, 0],
    "UINT8": [0, 255],
    "UINT16": [0, 65_535],
    "UINT32": [0, 2**32 - 1],
    "UINT64": [0, 2**63, 2**64 - 1],
    "INT8": [-128, 127],
    "INT16": [-32_768, 32_767],
    "INT32": [-(2**31), 2**31 - 1],
    "INT64": [-(2**63), 2**63 - 1, 2**53 + 1],
    "FP16": [1.5, -65_504.0, 65_519.0, 2, 0.0],
    "FP32": [1.5, 3.4028234663852886e38, -1e-45, 7],
    "FP64": [0.1, 1.7976931348623157e308, -5e-324, 3],
    "BF16": [1.5, -3.3895313892515355e38, 4],
    "BYTES": ["hello", "", 'a,b\n"q"', "😀"],
}


def expected(datatype: str, values: list[Any]) -> list[Any]:
    if datatype == "BYTES":
        return [value.encode() for value in values]
    if datatype == "BF16":
        patterns: list[Any] = from_float32(np.array(values, np.float32)).tolist()
        return patterns
    made: list[Any] = np.array(values, DATATYPES[datatype].dtype).tolist()
    return made


def test_every_datatype_is_tested() -> None:
    assert LIMITS.keys() == DATATYPES.keys()


@pytest.mark.parametrize("own", [True, False], ids=["the model's datatype", "another datatype"])
@pytest.mark.parametrize("datatype", LIMITS)
def test_the_limits_of_every_datatype_arrive_exactly(datatype: str, own: bool) -> None:
    """Both roads: data of the model's own datatype takes the short one, any other the long one."""
    values = LIMITS[datatype]
    codec = codec_of(datatype if own else "INT8" if datatype != "INT8" else "FP32")
    array = only(decode_json(request_of(datatype, [len(values)], values), codec))
    assert array.dtype == DATATYPES[datatype].dtype
    assert array.tolist() == expected(datatype, values)


@pytest.mark.parametrize("datatype", LIMITS)
def test_nested_data_arrives_in_row_major_order(datatype: str) -> None:
    values = LIMITS[datatype][:2]
    nested = [[values, values[::-1]], [values[::-1], values]]
    array = only(decode_json(request_of(datatype, [2, 2, 2], nested), codec_of(datatype)))
    assert array.shape == (2, 2, 2)
    assert array[1, 0].tolist() == expected(datatype, values[::-1])


@pytest.mark.parametrize(
    ("datatype", "value", "reason"),
    [
        ("UINT8", 256, "expected int <= 255"),
        ("UINT8", -1, "expected int >= 0"),
        ("INT8", -129, "expected int >= -128"),
        ("INT8", 128, "expected int <= 127"),
        ("UINT16", 65_536, "expected int <= 65535"),
        ("INT16", 32_768, "expected int <= 32767"),
        ("UINT32", 2**32, "expected int <= 4294967295"),
        ("INT32", 2**31, "expected int <= 2147483647"),
        ("INT32", -(2**31) - 1, "expected int >= -2147483648"),
        ("INT64", 2**63, "expected int <= 9223372036854775807"),
        ("UINT64", -1, "expected int >= 0"),
        ("UINT64", 2**64, "18446744073709551616 does not fit UINT64"),
        ("INT32", 1.5, "expected int, got float"),
        ("INT32", 1.0, "expected int, got float"),
        ("INT32", "3", "expected int, got str"),
        ("INT32", True, "expected int, got bool"),
        ("INT32", None, "expected int, got null"),
        ("FP16", 65_520.0, "expected float < 65520.0"),
        ("FP16", -70_000, "expected float > -65520.0"),
        ("FP32", 1e39, "expected float < 3.4028235677973366e+38"),
        ("BF16", 3.4e38, "expected float < 3.39"),
        ("FP64", "1", "expected float, got str"),
        ("FP32", False, "expected float, got bool"),
        ("FP32", {"b64": "AA=="}, "expected float, got object"),
        ("BOOL", 2, "expected int <= 1"),
        ("BOOL", -1, "expected int >= 0"),
        ("BOOL", "true", "expected bool | int, got str"),
        ("BOOL", 1.0, "expected bool | int, got float"),
        ("BYTES", 5, "expected str, got int"),
        ("BYTES", None, "expected str, got null"),
        ("BYTES", {"b64": "AA=="}, "expected str, got object"),
    ],
)
def test_a_value_that_does_not_fit_is_named_and_never_narrowed(datatype: str, value: Any, reason: str) -> None:
    good = LIMITS[datatype][0]
    with pytest.raises(InputError) as caught:
        decode_json(request_of(datatype, [2], [good, value]), codec_of(datatype))
    assert str(caught.value).startswith("input 'x': data[1]: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400])
def test_a_number_beyond_every_float_is_refused(number: str) -> None:
    with pytest.raises(InputError, match=r"input 'x': data\[0\]: number out of range"):
        decode_json(spelled(f"[{number}]", "FP64"))


def test_a_huge_integer_is_not_repeated_in_full() -> None:
    body = spelled(f"[{10**4_000}]", "UINT64")
    with pytest.raises(InputError, match="does not fit UINT64") as caught:
        decode_json(body, codec_of("UINT64"))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "nan", "0x1", "01", "1.", "+1", "'a'"])
def test_what_is_no_json_is_no_number(word: str) -> None:
    with pytest.raises(InputError, match="request body: not valid JSON"):
        decode_json(spelled(f"[{word}]"))


@pytest.mark.parametrize(
    ("shape", "data", "reason"),
    [
        ([1, 16], list(range(18)), "input 'x': shape [1, 16] needs 16 elements, data holds 18"),
        ([1, 16], list(range(15)), "input 'x': shape [1, 16] needs 16 elements, data holds 15"),
        ([2, 2], [[1, 2], [3]], "input 'x': data[1]: expected 2 items here to fit the shape, got 1"),
        ([2, 2], [[1, 2], [3, 4], [5, 6]], "input 'x': data: expected 2 items here to fit the shape, got 3"),
        ([2, 2], [[1, 2], 3], "input 'x': data[1]: expected array, got int"),
        ([2, 2], [1, [2, 3, 4]], "input 'x': data[1]: expected float, got array"),
        ([4], [[1, 2], [3, 4]], "input 'x': data is nested 2 deep where shape [4] nests 1 deep; send flat or"),
        ([2, 2, 1], [[1, 2], [3, 4]], "input 'x': data is nested 2 deep where shape [2, 2, 1] nests 3 deep"),
        ([2, 1, 2], [[[1, 2]], [[3]]], "input 'x': data[1][0]: expected 2 items here to fit the shape, got 1"),
        ([0, 2], [[]], "input 'x': data is nested 2 deep where shape [0, 2] nests 1 deep"),
        ([2, 0], [[], [1]], "input 'x': data[1]: expected 0 items here to fit the shape, got 1"),
        ([0], [1], "input 'x': shape [0] needs 0 elements, data holds 1"),
        ([], [], "input 'x': shape [] needs 1 elements, data holds 0"),
        ([], 1, "inputs[0].data: expected an array, got a number"),
        ([1], "1", "inputs[0].data: expected an array, got a string"),
        ([1], None, "inputs[0].data: expected an array, got null"),
        ([1], {}, "inputs[0].data: expected an array, got an object"),
        ([1], True, "inputs[0].data: expected an array, got a boolean"),
        ([0, 2**62], [], "input 'x': shape [0, 4611686018427387904] is beyond what an array can have"),
        ([2**62, 2], [1], f"needs {2**63} elements, data holds 1"),
    ],
)
def test_data_that_does_not_fill_its_shape_is_refused_with_both_numbers(shape: Any, data: Any, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_json(request_of("FP32", shape, data))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ([0], []),
        ([2, 0], []),
        ([2, 0], [[], []]),
        ([0, 3], []),
        ([2, 0, 3], [[], []]),
        ([2, 2, 0], [[[], []], [[], []]]),
    ],
)
@pytest.mark.parametrize("datatype", ["FP32", "BYTES", "BF16", "BOOL"])
def test_a_tensor_without_elements_keeps_its_shape(datatype: str, shape: list[int], data: list[Any]) -> None:
    array = only(decode_json(request_of(datatype, shape, data), codec_of(datatype)))
    assert (list(array.shape), array.dtype) == (shape, DATATYPES[datatype].dtype)


def test_nesting_without_end_is_refused() -> None:
    for depth in (33, 500):
        deep = "[" * depth + "1" + "]" * depth
        with pytest.raises(InputError, match="input 'x': data: nested too deeply"):
            decode_json(spelled(deep))
    endless = "[" * 100_000 + "]" * 100_000
    for body in (
        spelled(endless),
        f'{{"ignored":{endless},"inputs":[]}}',
        f'{{"parameters":{{"p":{endless}}},"inputs":[]}}',
        endless,
    ):
        with pytest.raises(InputError):
            decode_json(body)


def test_white_space_between_brackets_means_nothing() -> None:
    body = spelled(" [ \n\t [ \r 5 ] ] ", shape="[ 1 , 1 ]")
    assert only(decode_json(body)).tolist() == [[5.0]]


@pytest.mark.parametrize(
    ("datatypes", "shared"),
    [
        (["FP32", "FP32"], "FP32"),
        (["FP32", "INT64"], None),
        (["BYTES"], None),
        (["BF16"], None),
        (["BOOL"], None),
        ([], None),
    ],
)
def test_which_models_have_a_short_road(datatypes: list[str], shared: str | None) -> None:
    specs = [TensorSpec(f"x{index}", datatype, [1]) for index, datatype in enumerate(datatypes)]
    assert shared_datatype(specs) == shared


@pytest.mark.parametrize(
    ("datatype", "array", "text"),
    [
        ("FP32", np.array([[1.5, -2.0]], np.float32), b"[1.5,-2.0]"),
        ("FP16", np.array([1.5, 65504], np.float16), b"[1.5,65504.0]"),
        ("FP64", np.array([0.1]), b"[0.1]"),
        ("BF16", from_float32(np.array([1.5, -3.0], np.float32)), b"[1.5,-3.0]"),
        ("BOOL", np.array([True, False]), b"[true,false]"),
        ("UINT64", np.array([2**64 - 1], np.uint64), b"[18446744073709551615]"),
        ("INT8", np.array([[-128], [127]], np.int8), b"[-128,127]"),
        ("INT64", np.zeros((2, 0), np.int64), b"[]"),
        ("BYTES", np.array([[b"a", b""], ["😀".encode(), b'"\n']], object), '["a","","😀","\\"\\n"]'.encode()),
    ],
)
def test_outputs_are_written_flat_and_row_major(datatype: str, array: Any, text: bytes) -> None:
    assert encode_array(TensorSpec("y", datatype, [-1]), array.reshape(-1)) == text


@pytest.mark.parametrize(
    ("datatype", "array", "text"),
    [
        ("FP32", np.array([[1.5, -2.0]], np.float32), b"[[1.5,-2.0]]"),
        ("BF16", from_float32(np.array([[1.5], [-3.0]], np.float32)), b"[[1.5],[-3.0]]"),
        ("INT64", np.zeros((2, 0), np.int64), b"[[],[]]"),
        ("INT64", np.zeros((2, 0, 3), np.int64), b"[[],[]]"),
        ("BYTES", np.array([[b"a", b""], [b"b", b"c"]], object), b'[["a",""],["b","c"]]'),
        ("BYTES", np.zeros((2, 0), object), b"[[],[]]"),
        ("BYTES", np.array(b"a", object), b'"a"'),
    ],
)
def test_outputs_are_nested_as_their_shape(datatype: str, array: Any, text: bytes) -> None:
    assert encode_array(TensorSpec("y", datatype, [-1]), array) == text


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("datatype", ["FP16", "FP32", "FP64", "BF16"])
def test_what_json_has_no_number_for_is_refused(datatype: str, value: float) -> None:
    plain = np.array([1, value, 2], np.float32)
    array = from_float32(plain) if datatype == "BF16" else plain.astype(DATATYPES[datatype].dtype)
    with pytest.raises(NotAcceptable, match=r"output 'y' holds NaN or an infinity.*ask for it as binary data"):
        encode_array(TensorSpec("y", datatype, [-1]), array)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(NotAcceptable, match=r"output 'y' holds bytes that are not UTF-8.*as binary data"):
        encode_array(TensorSpec("y", "BYTES", [-1]), np.array([b"ok", b"\xff"], object))
