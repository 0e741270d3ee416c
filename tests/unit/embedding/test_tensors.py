"""Values of programs as inputs: lists as the wire takes them, arrays by the same ranges, outputs as one's own."""

import json
from typing import Any

import ml_dtypes
import msgspec
import numpy as np
import pytest

import guepard
from guepard.core.errors import InputError
from guepard.core.tensor import Array, TensorSpec
from guepard.embedding.tensors import to_own_array, to_tensor
from guepard.protocols import brain_float, oip_json


def convert(datatype: str, value: Any) -> Array:
    tensor = to_tensor(TensorSpec("x", datatype, [-1]), value)
    assert (tensor.name, tensor.datatype) == ("x", datatype)
    assert not tensor.array.flags.writeable
    assert tensor.array.flags.c_contiguous
    return tensor.array


VALUES: dict[str, list[list[Any]]] = {
    "BOOL": [[True, False], [1, 0], [True, 0], [2], [-1], [1.0], ["true"], []],
    "FP16": [[1, 2.5], [65519.9], [65520], [-65520.0], [True], ["1"], [None], [2**70]],
    "FP32": [[0.1, 1], [3.4028235e38], [3.4028236e38], [1e39], [16777217], [2**70], [True, 1.0], [False]],
    "FP64": [[0.1, 2**70], [1e308], [1, True]],
    "BF16": [[0.1, 1], [3.38e38], [3.4e38], [True], ["a"]],
    "BYTES": [["a", "é"], ["a", 1], [None], [True], []],
}
for _bits in (8, 16, 32, 64):
    _top = 2**_bits
    VALUES[f"INT{_bits}"] = [
        [-_top // 2, _top // 2 - 1],
        [_top // 2],
        [-_top // 2 - 1],
        [1.0],
        [1, 1.5],
        [True, 2],
        [2**70],
    ]
    VALUES[f"UINT{_bits}"] = [[0, _top - 1], [_top], [-1], [0.5], [1, False], ["1"], [-1, 2**63], [-1, 2**64]]


@pytest.mark.parametrize(("datatype", "values"), [(name, each) for name, lists in VALUES.items() for each in lists])
def test_lists_are_taken_and_refused_as_the_wire_does(datatype: str, values: list[Any]) -> None:
    try:
        raw = msgspec.Raw(json.dumps(values).encode())
        expected = oip_json.tensor_from_raw("x", datatype, [len(values)], raw, "inputs[0]").array
    except InputError:
        with pytest.raises(InputError, match="input 'x'"):
            convert(datatype, values)
    else:
        array = convert(datatype, values)
        assert array.dtype == expected.dtype
        assert array.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("datatype", "value", "expected"),
    [
        ("FP32", np.array([0.1, 2]), [np.float32(0.1), 2]),
        ("FP32", np.array([1, -2], np.int64), [1, -2]),
        ("FP32", np.array([1, 2], ">f4"), [1, 2]),
        ("FP32", np.array([np.nan, np.inf]), [np.nan, np.inf]),
        ("FP32", np.arange(6, dtype=np.float32)[::2], [0, 2, 4]),
        ("FP64", np.array([0.5], np.float16), [0.5]),
        ("UINT8", np.array([0, 255], np.int64), [0, 255]),
        ("INT64", np.array([2**63 - 1], np.uint64), [2**63 - 1]),
        ("UINT64", np.array([2**64 - 1, 7], object), [2**64 - 1, 7]),
        ("INT32", np.int8(-3), -3),
        ("INT32", 7, 7),
        ("FP32", 1.5, 1.5),
        ("BOOL", np.array([0, 1], np.uint8), [False, True]),
        ("BYTES", "text", b"text"),
        ("BYTES", b"bytes", b"bytes"),
        ("BYTES", np.array(["a", "é"]), [b"a", "é".encode()]),
        ("BYTES", np.array([b"a", b"bc"]), [b"a", b"bc"]),
        ("BYTES", [[b"a"], ["b"]], [[b"a"], [b"b"]]),
    ],
)
def test_arrays_and_scalars(datatype: str, value: Any, expected: object) -> None:
    np.testing.assert_array_equal(convert(datatype, value), np.array(expected, convert(datatype, value).dtype))


def test_every_form_of_bf16() -> None:
    numbers = [1.0, -2.5, 3e38]
    patterns = brain_float.from_float32(np.array(numbers, np.float32))
    forms = (numbers, np.array(numbers), np.array(numbers, np.float32), np.array(numbers, ml_dtypes.bfloat16), patterns)
    for value in forms:
        assert convert("BF16", value).tolist() == patterns.tolist()
    assert convert("FP32", np.array([1.5, 2], ml_dtypes.bfloat16)).tolist() == [1.5, 2]
    with pytest.raises(InputError, match="bit patterns as uint16"):
        convert("BF16", np.array([1, 2], np.int64))


@pytest.mark.parametrize(
    ("datatype", "value", "message"),
    [
        ("UINT8", np.array([[1, 256]]), r"input 'x'\[0\]\[1\]: 256 does not fit UINT8"),
        ("UINT8", 256, "input 'x': 256 does not fit UINT8"),
        ("INT32", np.array([1.0, 1.5]), r"expected integers \(INT32\), got an array of float64"),
        ("INT32", np.array([True]), r"expected integers \(INT32\), got an array of bool"),
        ("INT64", np.array([2**63], np.uint64), r"\[0\]: 9223372036854775808 does not fit INT64"),
        ("FP32", np.array([1, 1e39]), r"input 'x'\[1\]: 1e\+39 does not fit FP32"),
        ("FP64", np.array([np.longdouble("1e400")]), "does not fit FP64"),
        ("FP32", np.array(["1.5", 2], object), r"\[0\]: expected numbers \(FP32\), got str '1.5'"),
        ("FP32", np.array([1j]), "got an array of complex128"),
        ("FP32", np.array(["2026-01-01"], "datetime64[D]"), "got an array of datetime64"),
        ("FP32", [[1.0], [1.0, 2.0]], "expected a regular array or nested lists of FP32, got a list that is neither"),
        ("FP32", {"a": 1}, r"expected numbers \(FP32\), got dict"),
        ("FP32", None, r"expected numbers \(FP32\), got NoneType"),
        ("FP32", np.ma.masked_array([1.0, 2.0], [False, True]), "its mask would be lost"),
        ("BYTES", [b"a", 1], r"input 'x'\[1\]: expected bytes or str \(BYTES\), got int '1'"),
        ("BYTES", [[b"a"], [b"a", b"b"]], "got list"),
        ("BYTES", ["\udcff"], "lone surrogates"),
    ],
)
def test_what_would_change_is_refused(datatype: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        convert(datatype, value)


def test_the_right_array_is_not_copied_and_stays_writable() -> None:
    array = np.ones((2, 3), np.float32)
    assert np.shares_memory(convert("FP32", array), array)
    assert array.flags.writeable
    strings = np.array([b"a"], object)
    convert("BYTES", strings)
    assert strings.flags.writeable


def test_outputs_are_one_s_own() -> None:
    spec = TensorSpec("y", "FP32", [-1])
    whole = np.ones((4, 2), np.float32)
    assert to_own_array(spec, whole) is whole
    assert not np.shares_memory(to_own_array(spec, whole[1:]), whole)
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    assert to_own_array(spec, frozen).flags.writeable
    patterns = brain_float.from_float32(np.array([1.5], np.float32))
    assert to_own_array(TensorSpec("y", "BF16", [1]), patterns).tolist() == [1.5]


def test_the_names_of_errors_are_public() -> None:
    assert issubclass(guepard.InputError, guepard.GuepardError)
    for name in guepard.__all__:
        assert getattr(guepard, name) is not None
