"""What `predict` may return for each declared datatype. Field cases F010 and F023."""

from typing import Any

import numpy as np
import pytest

from guepard.backends.python_results import ResultReader
from guepard.core.datatypes import DATATYPES
from guepard.core.errors import ModelError
from guepard.core.tensor import Array, TensorSpec


def read(datatype: str, value: Any, dims: tuple[int, ...] = (-1,), rows: int = 2, *, batched: bool = True) -> Array:
    reader = ResultReader("m", [TensorSpec("y", datatype, dims)], batched=batched)
    (array,) = reader.read({"y": value}, rows)
    assert array.dtype == DATATYPES[datatype].dtype
    assert array.flags.c_contiguous
    return array


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        ("BOOL", np.array([[True], [False]])),
        ("BOOL", [[np.True_], [np.False_]]),
        ("BOOL", [[True], [False]]),
        ("BOOL", [np.array([True]), np.array([False])]),
        ("INT64", [[1], [2]]),
        ("UINT8", [[0], [255]]),
        ("UINT64", [[0], [2**64 - 1]]),
        ("INT64", np.array([[1], [2]], np.int8)),
        ("INT64", np.array([[1], [2]], ">i8")),
        ("INT32", np.array([[True], [False]])),
        ("FP32", [[0.5], [1]]),
        ("FP32", [[1], [2]]),
        ("FP32", ((0.5,), (1.5,))),
        ("FP32", [[float("inf")], [float("-inf")]]),
        ("FP32", np.array([[1], [2]], np.int16)),
        ("FP32", np.array([[1], [2]], np.float16)),
        ("FP64", np.array([[1], [2]], np.float32)),
        ("FP16", [[0.5], [1.5]]),
        ("BF16", np.array([[0x3F80], [0]], np.uint16)),
        ("FP32", np.arange(8, dtype=np.float32).reshape(4, 2).T),
        ("INT8", [[], []]),
        ("BOOL", [[], []]),
    ],
)
def test_values_that_keep_their_meaning_are_taken(datatype: str, value: Any) -> None:
    assert read(datatype, value).tolist() == np.asarray(value, object).tolist()


@pytest.mark.parametrize(
    ("datatype", "value", "reason"),
    [
        ("BOOL", np.array([[1], [0]], np.int8), "declared BOOL, but predict returned int8; return bool"),
        ("BOOL", [[1], [0]], "declared BOOL, but predict returned a list of int64 values"),
        ("FP32", np.array([[0.5], [1]]), r"declared FP32, but predict returned float64; .*astype\(np\.float32\)"),
        ("FP32", np.array([[1], [2]]), "declared FP32, but predict returned int64"),
        ("FP16", np.array([[1], [2]], np.int16), "declared FP16, but predict returned int16"),
        ("INT32", np.array([[1], [2]]), "declared INT32, but predict returned int64"),
        ("INT8", np.array([[1], [2]], np.uint8), "declared INT8, but predict returned uint8"),
        ("INT64", [[0.5], [1]], "a list of float64 values"),
        ("UINT8", [[256], [0]], "a number outside of its range"),
        ("UINT8", [[-1], [0]], "a number outside of its range"),
        ("UINT64", [[-1], [0]], "a number outside of its range"),
        ("INT64", [[2**64], [0]], "a list of object values"),
        ("FP32", [[1e300], [0]], "a number too large for it"),
        ("FP16", [[100_000], [0]], "a number too large for it"),
        (
            "BF16",
            np.array([[1], [0]], np.float32),
            "declared BF16, but predict returned float32; return the bit patterns",
        ),
        ("BF16", np.array([[1], [0]], np.uint8), "predict returned uint8"),
        ("BF16", [[1], [0]], "return the bit patterns"),
        ("FP32", [[1.0], [2.0, 3.0]], "a list that is not a regular array of numbers"),
        ("FP32", [["a"], ["b"]], "a list of <U1 values"),
        ("FP32", "text", "returned <U4"),
        ("FP32", None, "returned object"),
        ("FP32", np.array([[1j], [0]]), "returned complex128"),
        ("INT64", np.array([["2020-01-01"], ["2020-01-02"]], "M8[D]"), "returned datetime64"),
        ("BYTES", [[b"a"], [1]], "an element of type int; return bytes or str"),
        ("BYTES", [[b"a"], [None]], "an element of type NoneType"),
        ("BYTES", [["\ud800"], ["a"]], "lone surrogates"),
        ("BYTES", [[b"a"], [b"b", b"c"]], "an element of type list"),
    ],
)
def test_values_that_would_change_are_refused(datatype: str, value: Any, reason: str) -> None:
    with pytest.raises(ModelError, match=f"^model 'm': output 'y' is .*{reason}"):
        read(datatype, value)


def test_what_numpy_cannot_read_is_refused_by_its_type() -> None:
    class Tensor:
        def __array__(self, *arguments: Any, **keywords: Any) -> Array:
            raise RuntimeError("on another device")

    for datatype in ("FP32", "BYTES"):
        with pytest.raises(ModelError, match="returned a Tensor that is not a regular array"):
            read(datatype, Tensor())


def test_text_and_bytes_may_be_mixed_in_any_shape() -> None:
    """Field case F010."""
    mixed: list[list[list[str | bytes]]] = [
        [["a", b"", "é"], [b"\xff\x00", "日本", b"x" * 70]],
        [[b"", b"", ""], [b"q", "r", np.str_("s")]],
    ]
    expected = [[[e if isinstance(e, bytes) else e.encode() for e in row] for row in plane] for plane in mixed]
    as_objects = np.empty((2, 2, 3), object)
    as_objects[:] = mixed
    for value in (mixed, as_objects, tuple(mixed)):
        array = read("BYTES", value, (2, 3))
        assert array.tolist() == expected
        assert {type(element) for element in array.flat} == {bytes}


@pytest.mark.parametrize(
    "value", [np.array([["a"], ["bé"]]), np.array([[b"a"], ["bé".encode()]]), np.array([["a"], ["bé"]], object)]
)
def test_every_numpy_form_of_text_is_taken(value: Array) -> None:
    assert read("BYTES", value).tolist() == [[b"a"], ["bé".encode()]]


@pytest.mark.parametrize(
    ("shape", "dims", "batched"),
    [((2, 3), (3,), True), ((2, 7), (-1,), True), ((2,), (), True), ((3,), (3,), False), ((), (), False)],
)
def test_shapes_that_are_declared(shape: tuple[int, ...], dims: tuple[int, ...], batched: bool) -> None:
    assert read("FP32", np.zeros(shape, np.float32), dims, batched=batched).shape == shape


@pytest.mark.parametrize(
    ("shape", "dims", "batched", "expected"),
    [
        ((3, 3), (3,), True, r"\[2, 3\], it has \[3, 3\]"),
        ((1, 3), (3,), True, r"\[2, 3\], it has \[1, 3\]"),
        ((2, 4), (3,), True, r"\[2, 3\], it has \[2, 4\]"),
        ((2, 3, 1), (-1,), True, r"\[2, -1\], it has \[2, 3, 1\]"),
        ((), (), True, r"\[2\], it has \[\]"),
        ((4,), (3,), False, r"\[3\], it has \[4\]"),
    ],
)
def test_other_shapes_are_refused(shape: tuple[int, ...], dims: tuple[int, ...], batched: bool, expected: str) -> None:
    with pytest.raises(ModelError, match=f"^model 'm': output 'y' must have shape {expected}$"):
        read("FP32", np.zeros(shape, np.float32), dims, batched=batched)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({}, "missing: a, b; declared: b, a"),
        ({"b": [1]}, "missing: a;"),
        ({"a": [1], "b": [1], "c": [1], 4: 5}, "not declared: 4, c;"),
        ([1], "a dict of outputs by name, it returned list"),
        (None, "it returned NoneType"),
    ],
)
def test_exactly_the_declared_outputs(result: Any, reason: str) -> None:
    reader = ResultReader("m", [TensorSpec("b", "INT64", []), TensorSpec("a", "INT64", [])], batched=True)
    with pytest.raises(ModelError, match=reason):
        reader.read(result, 1)
    first, second = reader.read({"a": [1], "b": [2]}, 1)
    assert (first.tolist(), second.tolist()) == ([2], [1])


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        ("FP32", np.zeros((2, 3), np.float32)),
        ("FP32", np.zeros((4, 3), np.float32)[:2]),
        ("FP32", np.zeros((3, 2), np.float32).T),
        ("FP32", np.zeros((2, 3), ">f4")),
        ("BF16", np.zeros((2, 3), np.uint16)),
        ("FP32", np.zeros((2, 3), np.float32).data),
        ("BYTES", np.full((2, 3), b"a", object)),
        ("BYTES", np.full((4, 3), b"a", object)[:2]),
    ],
)
def test_an_answer_shares_no_memory_with_what_the_model_may_return_again(datatype: str, value: Any) -> None:
    assert not np.shares_memory(read(datatype, value), np.asarray(value))
