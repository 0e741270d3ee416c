"""Numbers of another datatype."""

import numpy as np
import pytest

from guepard.core.errors import InputError, LoadError
from guepard.core.tensor import Array, TensorSpec
from tests.unit.hooks.images import chain


def cast(values: Array, datatype: str, wanted: str) -> Array:
    links = chain({"cast": {"datatype": datatype}}, TensorSpec("x", wanted, [-1]))
    assert links.takes == (TensorSpec("x", datatype, [-1]),)
    return np.asarray(links.run({"x": values.reshape(-1, 1)}, [0])["x"]).ravel()


def test_values_are_kept() -> None:
    assert cast(np.array([1, 2, 255]), "INT64", "UINT8").tolist() == [1, 2, 255]
    assert cast(np.array([1.0, -2.0], np.float32), "FP32", "INT32").tolist() == [1, -2]
    assert cast(np.array([0.1]), "FP64", "FP32").tolist() == [np.float32(0.1)]
    assert cast(np.array([3], np.uint8), "UINT8", "FP32").dtype == np.float32
    assert cast(np.array([True, False]), "BOOL", "FP32").tolist() == [1, 0]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_no_number_stays_none(value: float) -> None:
    np.testing.assert_array_equal(cast(np.array([value]), "FP64", "FP32"), [np.float32(value)])


@pytest.mark.parametrize(
    ("value", "datatype", "wanted"),
    [
        (300, "INT64", "UINT8"),
        (-1, "INT64", "UINT64"),
        (0.5, "FP32", "INT32"),
        (np.nan, "FP32", "INT32"),
        (1e9, "FP32", "FP16"),
        (1e300, "FP64", "FP32"),
    ],
)
def test_a_value_that_the_model_cannot_have_is_refused_by_its_row(value: float, datatype: str, wanted: str) -> None:
    values = np.array([0, value], TensorSpec("x", datatype, []).datatype.dtype)
    with pytest.raises(InputError, match=f"input 'x': row 1 holds values that {wanted} has not") as error:
        cast(values, datatype, wanted)
    assert error.value.row == 1


def test_an_optional_input_may_be_left_out() -> None:
    assert chain({"cast": {"datatype": "INT8"}}, TensorSpec("x", "FP32", [1], optional=True)).run({}, [0]) == {}


def test_bytes_are_no_numbers() -> None:
    with pytest.raises(LoadError, match="cast: none of the inputs 'x' is numbers"):
        chain({"cast": {"datatype": "INT8"}}, TensorSpec("x", "BYTES", [1]))
