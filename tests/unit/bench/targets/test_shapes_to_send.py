"""Shapes for inputs whose dimensions are partly free, and values that fill them."""

import numpy as np
import pytest

from guepard.bench.targets.model_metadata import InputMetadata
from guepard.bench.targets.random_tensors import random_tensor
from guepard.bench.targets.tensor_shapes import FREE_DIM, plan_shapes
from guepard.core.datatypes import DATATYPES
from guepard.core.errors import ConfigurationError
from guepard.protocols.brain_float import to_float32

X = InputMetadata("x", "FP32", (-1, 3, -1))
FIXED = InputMetadata("f", "FP32", (1, 30))
SCALAR = InputMetadata("s", "FP32", ())


def test_the_batch_fills_a_free_first_dimension_and_the_rest_is_assumed() -> None:
    planned = plan_shapes([X, FIXED, SCALAR], 4, [])
    assert planned.shapes == {"x": (4, 3, FREE_DIM), "f": (1, 30), "s": ()}
    assert planned.notes == (
        "input 'x': free dimensions are taken as 16, shape [4, 3, 16]; say --shape x:3,16 to choose",
    )


@pytest.mark.parametrize(("option", "shape"), [("x:3,5", (2, 3, 5)), ("x:2,3,5", (2, 3, 5))])
def test_a_shape_with_or_without_its_batch(option: str, shape: tuple[int, ...]) -> None:
    assert plan_shapes([X], 2, [option]).shapes == {"x": shape}


def test_names_may_hold_colons() -> None:
    assert plan_shapes([InputMetadata("x:0", "FP32", (-1, -1))], 1, ["x:0:7"]).shapes == {"x:0": (1, 7)}


@pytest.mark.parametrize(
    ("inputs", "batch", "options", "named"),
    [
        ([X], 1, ["x"], "expected NAME:DIMENSIONS"),
        ([X], 1, ["x:"], "expected NAME:DIMENSIONS"),
        ([X], 1, ["x:3,-1"], "expected NAME:DIMENSIONS"),
        ([X], 1, ["y:3,5"], "no input 'y'; it has x"),
        ([X], 1, ["x:4,5"], r"takes \[-1, 3, -1\]"),
        ([X], 1, ["x:5"], r"takes \[-1, 3, -1\]"),
        ([X], 3, ["x:2,3,5"], "a batch of 2, but --batch 3"),
        ([FIXED], 2, [], "--batch 2: input 'f'.*leave --batch out"),
        ([X], 1, ["x:3,999999999"], "more than"),
    ],
)
def test_shapes_that_cannot_be(inputs: list[InputMetadata], batch: int, options: list[str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        plan_shapes(inputs, batch, options)


@pytest.mark.parametrize("datatype", DATATYPES)
def test_random_values_are_sane_and_repeat_with_their_seed(datatype: str) -> None:
    made = [random_tensor(np.random.default_rng((1, 5)), "x", datatype, (40, 50), 5).array for _ in range(2)]
    assert made[0].tolist() == made[1].tolist()
    assert made[0].shape == (40, 50)
    assert made[0].dtype == DATATYPES[datatype].dtype
    other = random_tensor(np.random.default_rng((1, 6)), "x", datatype, (40, 50), 6).array
    assert other.tolist() != made[0].tolist()
    match DATATYPES[datatype].kind:
        case "bytes":
            assert made[0][0, 0].startswith(b"00000005 ")
            assert all(len(text) < 40 for text in made[0].flat)
        case "float":
            values = to_float32(made[0]) if datatype == "BF16" else made[0]
            assert 0 <= values.min() <= values.max() < 1
        case "int":
            highest = 255 if datatype == "UINT8" else 99
            assert made[0].min() >= 0
            assert highest * 0.9 < made[0].max() <= highest
        case "bool":
            assert 0 < made[0].mean() < 1


@pytest.mark.parametrize(("name", "value"), [("attention_mask", 1), ("token_type_ids", 0), ("segment_ids", 0)])
def test_masks_are_ones_and_segments_zeros(name: str, value: int) -> None:
    array = random_tensor(np.random.default_rng(1), name, "INT64", (2, 20), 0).array
    assert set(array.flat) == {value}


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_shapes_without_dimensions_or_elements(shape: tuple[int, ...]) -> None:
    for datatype in DATATYPES:
        assert random_tensor(np.random.default_rng(1), "x", datatype, shape, 0).array.shape == shape
