"""Numbers that are none are refused, by the row."""

from pathlib import Path

import numpy as np
import pytest

from guepard.core.errors import InputError
from guepard.core.tensor import TensorSpec
from guepard.hooks.finite import Finite

INPUTS = [TensorSpec("x", "FP32", [2]), TensorSpec("n", "INT64", []), TensorSpec("t", "BYTES", [])]
OUTPUTS = {"y": np.zeros(3)}


def run(values: object, **options: bool) -> object:
    step = Finite(Path(), **options)
    assert step.after([TensorSpec("y", "FP32", [])], INPUTS) == (TensorSpec("y", "FP32", []),)
    x = np.array(values, np.float32)
    return step.run(OUTPUTS, {"x": x, "n": np.zeros(len(x), int), "t": np.array([b""] * len(x), object)})


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_the_row_is_named(value: float, what: str) -> None:
    with pytest.raises(InputError, match=f"input 'x' holds {what}, which the model does not take") as refused:
        run([[1, 2], [3, value], [5, 6]])
    assert refused.value.row == 1


def test_what_is_taken_passes() -> None:
    assert run([[1, 2]]) is OUTPUTS
    assert run([[np.nan, 2]], nan=True) is OUTPUTS
    assert run([[np.inf, 2]], infinity=True) is OUTPUTS
    with pytest.raises(InputError, match="holds infinity"):
        run([[np.nan, np.inf]], nan=True)
