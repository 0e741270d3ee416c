"""What a reload may change without breaking callers of the version before."""

import pytest

from guepard.core.tensor import TensorSpec
from guepard.engine.compatibility import incompatibility
from tests.unit.engine.configs import model_config

OLD = model_config(
    inputs=(TensorSpec("x", "FP32", [4]), TensorSpec("w", "FP32", [1], optional=True)),
    outputs=(TensorSpec("y", "FP32", [-1]),),
)
X, W = OLD.inputs
(Y,) = OLD.outputs


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"version": "2", "max_batch_size": 64, "platform": "other"},
        {"inputs": (W, X)},
        {"inputs": (TensorSpec("x", "FP32", [-1]), W)},
        {"inputs": (X, W, TensorSpec("more", "FP32", [1], optional=True))},
        {"outputs": (TensorSpec("y", "FP32", [2]),)},
        {"outputs": (TensorSpec("other", "FP32", [1]), Y)},
        {
            "max_batch_size": 0,
            "inputs": (TensorSpec("x", "FP32", [-1, 4]), TensorSpec("w", "FP32", [-1, 1], optional=True)),
            "outputs": (TensorSpec("y", "FP32", [-1, -1]),),
        },
    ],
)
def test_callers_go_on(fields: dict[str, object]) -> None:
    assert incompatibility(OLD, model_config(**{"inputs": OLD.inputs, "outputs": OLD.outputs} | fields)) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"inputs": (W, TensorSpec("z", "FP32", [4]))}, "input 'x' is gone"),
        ({"inputs": (X,)}, "input 'w' is gone"),
        (
            {"inputs": (TensorSpec("x", "FP64", [4]), W)},
            "input 'x' was FP32 [-1, 4] and is FP64 [-1, 4]",
        ),
        ({"inputs": (TensorSpec("x", "FP32", [5]), W)}, "input 'x' was FP32 [-1, 4] and is FP32 [-1, 5]"),
        ({"inputs": (TensorSpec("x", "FP32", [4, 1]), W)}, "input 'x' was FP32 [-1, 4] and is FP32 [-1, 4, 1]"),
        (
            {"inputs": (X, TensorSpec("w", "FP32", [1]))},
            "input 'w' was optional FP32 [-1, 1] and is FP32 [-1, 1]",
        ),
        ({"inputs": (X, W, TensorSpec("more", "FP32", [1]))}, "input 'more' is new and not optional"),
        ({"outputs": (TensorSpec("z", "FP32", [-1]),)}, "output 'y' is gone"),
        ({"outputs": (TensorSpec("y", "INT64", [-1]),)}, "output 'y' was FP32 [-1, -1] and is INT64 [-1, -1]"),
        ({"max_batch_size": 0}, "input 'x' was FP32 [-1, 4] and is FP32 [4]"),
    ],
)
def test_what_would_break_them_is_named(fields: dict[str, object], reason: str) -> None:
    assert incompatibility(OLD, model_config(**{"inputs": OLD.inputs, "outputs": OLD.outputs} | fields)) == reason


def test_an_output_that_was_of_one_size_may_not_become_free() -> None:
    new = model_config(outputs=(TensorSpec("y", "FP32", [-1]),))
    assert incompatibility(model_config(), new) == "output 'y' was FP32 [-1, 1] and is FP32 [-1, -1]"
