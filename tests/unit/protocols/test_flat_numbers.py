"""Lists of numbers become the very arrays that numpy makes of them, or none."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.core.datatypes import DATATYPES
from guepard.protocols.flat_numbers import FlatNumbers

FLOATS = ("FP16", "FP32", "FP64")
INTEGERS = [name for name, entry in DATATYPES.items() if entry.kind == "int"]


@pytest.mark.parametrize("datatype", FLOATS)
@given(numbers=st.lists(st.floats(-65_000, 65_000), min_size=1, max_size=40))
def test_floats_are_rounded_as_numpy_does(datatype: str, numbers: list[float]) -> None:
    array = FlatNumbers(datatype).array([len(numbers)], numbers)
    assert array is not None
    assert array.tobytes() == np.array(numbers, DATATYPES[datatype].dtype).tobytes()


@pytest.mark.parametrize("datatype", INTEGERS)
def test_integers_up_to_their_bounds_and_no_further(datatype: str) -> None:
    bounds = np.iinfo(DATATYPES[datatype].dtype)
    made = FlatNumbers(datatype).array([2, 1], [bounds.min, bounds.max])
    assert made is not None
    assert (made.dtype, made.tolist()) == (DATATYPES[datatype].dtype, [[bounds.min], [bounds.max]])
    for beyond in (bounds.min - 1, bounds.max + 1, 2**70):
        assert FlatNumbers(datatype).array([1], [beyond]) is None


@pytest.mark.parametrize(
    ("datatype", "least"),
    [("FP16", 65_520.0), ("FP32", math.ldexp(2 - 2**-24, 127)), ("FP32", 1e300), ("FP32", -1e300)],
)
def test_what_would_round_to_infinity_is_none(datatype: str, least: float) -> None:
    assert FlatNumbers(datatype).array([1], [least]) is None
    below = FlatNumbers(datatype).array([1], [math.nextafter(least, 0)])
    assert (below is None) == (abs(least) > 1e200)


@pytest.mark.parametrize(
    ("shape", "numbers"),
    [([3], [1, 2]), ([1], [1, 2]), ([2, 2], [1, 2, 3]), ([0], []), ([1], []), ([2**62, 2**62, 0], []), ([], [1, 2])],
)
def test_what_does_not_fill_its_shape_is_left_to_others(shape: list[int], numbers: list[Any]) -> None:
    assert FlatNumbers("INT32").array(shape, numbers) is None


def test_a_shape_that_no_array_can_have_is_left_to_others() -> None:
    assert FlatNumbers("INT8").array([1] * 80, [1]) is None


@pytest.mark.parametrize("count", [1, 4_096, 100_000])
def test_any_length_in_memory_of_its_own(count: int) -> None:
    numbers = FlatNumbers("INT64")
    first, second = numbers.array([count], [7] * count), numbers.array([1, count], [8] * count)
    assert first is not None
    assert second is not None
    first[:] = 9
    assert (first.sum(), second.sum(), second.shape) == (9 * count, 8 * count, (1, count))


def test_more_lengths_than_are_kept() -> None:
    numbers = FlatNumbers("UINT8")
    for count in [*range(1, 600), 1, 300, 599]:
        array = numbers.array([count], [3] * count)
        assert array is not None
        assert array.tolist() == [3] * count
