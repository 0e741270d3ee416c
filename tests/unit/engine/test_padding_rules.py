"""What is said of padding, held against the model: what it amounts to, or which field is wrong and what to write."""

import logging
from typing import Any

import numpy as np
import pytest

from guepard.core.errors import LoadError
from guepard.core.model_config import ModelDescription
from guepard.core.padding import NO_BOUND, CutOutput, PaddedInput, Padding, PaddingRules
from guepard.core.tensor import TensorSpec
from guepard.engine.padding_rules import settle_padding

INPUTS = (
    TensorSpec("ids", "INT64", [-1]),
    TensorSpec("frames", "FP16", [3, -1]),
    TensorSpec("text", "BYTES", [-1]),
    TensorSpec("fixed", "FP32", [4]),
    TensorSpec("image", "FP32", [-1, -1]),
    TensorSpec("maybe", "INT64", [-1], optional=True),
    TensorSpec("half", "BF16", [-1]),
    TensorSpec("small", "UINT8", [-1]),
    TensorSpec("flag", "BOOL", [-1]),
)
OUTPUTS = (TensorSpec("hidden", "FP32", [-1, 8]), TensorSpec("label", "INT64", []))


def settle(inputs: Any, outputs: Any = None, model: dict[str, Any] | None = None, **rules: Any) -> Padding | None:
    description = ModelDescription("test", "test", INPUTS, OUTPUTS, **{"max_batch_size": 8} | (model or {}))
    return settle_padding(PaddingRules(inputs, outputs, **rules), description)


def test_names_become_places_and_axes_count_the_batch() -> None:
    padding = settle({"ids": 3, "frames": -0.5}, {"hidden": 0}, buckets=(4, 8), max_tokens=64, max_padding=0)
    assert padding == Padding(
        (PaddedInput("ids", 0, 1, np.int64(3)), PaddedInput("frames", 1, 2, np.float16(-0.5))),
        (CutOutput("hidden", 0, 1),),
        (4, 8),
        64,
        0,
    )


def test_bounds_that_nobody_names_are_open() -> None:
    padding = settle({"ids": 0})
    assert padding is not None
    assert (padding.buckets, padding.max_tokens, padding.max_padding) == ((), NO_BOUND, NO_BOUND)


def test_no_inputs_are_no_padding(caplog: pytest.LogCaptureFixture) -> None:
    assert settle({}, buckets=(4,)) is None
    assert caplog.records == []
    with caplog.at_level(logging.WARNING):
        assert settle(None, buckets=(4,)) is None
    assert "padding.inputs: missing" in caplog.text


@pytest.mark.parametrize(("name", "value", "held"), [("half", 1.5, 0x3FC0), ("flag", 1, True), ("small", 255, 255)])
def test_values_are_held_as_the_arrays_hold_them(name: str, value: float, held: int) -> None:
    padding = settle({name: value})
    assert padding is not None
    assert padding.inputs[0].value == held


def test_a_value_without_bounds_is_a_float_too() -> None:
    padding = settle({"frames": float("-inf")})
    assert padding is not None
    assert padding.inputs[0].value == -np.inf


@pytest.mark.parametrize(
    ("inputs", "outputs", "rules", "words"),
    [
        ({"idz": 0}, {}, {}, ["padding.inputs.idz: the model has no such input; it has 'ids', 'frames'"]),
        ({"text": 0}, {}, {}, ["padding.inputs.text: BYTES has no number", "remove it"]),
        ({"fixed": 0}, {}, {}, ["padding.inputs.fixed", "no dimension of it is free ([4])", "remove it"]),
        ({"image": 0}, {}, {}, ["padding.inputs.image", "2 dimensions of it are free", "remove it"]),
        ({"small": 256}, {}, {}, ["padding.inputs.small: 256 is no UINT8; write a number that is"]),
        ({"small": -1}, {}, {}, ["-1 is no UINT8"]),
        ({"ids": 0.5}, {}, {}, ["0.5 is no INT64"]),
        ({"flag": 2}, {}, {}, ["2 is no BOOL"]),
        ({"frames": 1e9}, {}, {}, ["1000000000.0 is no FP16"]),
        ({"ids": True}, {}, {}, ["padding.inputs.ids: must be a number, got True"]),
        ({"maybe": 0}, {}, {}, ["padding.inputs: all of them are optional"]),
        ({"ids": 0}, {"heden": 0}, {}, ["padding.outputs.heden: the model has no such output; it has 'hidden'"]),
        ({"ids": 0}, {"hidden": 2}, {}, ["padding.outputs.hidden: must be an axis from 0 to 1 of [-1, 8], got 2"]),
        ({"ids": 0}, {"hidden": -1}, {}, ["got -1"]),
        ({"ids": 0}, {"hidden": 1}, {}, ["dimension 1 of [-1, 8] is fixed at 8", "name a free one"]),
        ({"ids": 0}, {"label": 0}, {}, ["padding.outputs.label: the output has no dimension beside the batch"]),
        ({"ids": 0}, {}, {"buckets": (8, 4)}, ["padding.buckets: must ascend", "[8, 4]"]),
        ({"ids": 0}, {}, {"buckets": (4, 4)}, ["padding.buckets: must ascend"]),
        ({"ids": 0}, {}, {"buckets": (0, 4)}, ["padding.buckets: must ascend from 1"]),
        (
            {"ids": 0},
            {},
            {"buckets": (4, 64), "max_tokens": 63},
            ["padding.max_tokens: 63 is below the largest bucket, 64", "raise it"],
        ),
        ({"ids": 0}, {}, {"model": {"max_batch_size": 0}}, ["max_batch_size is 0", "remove padding"]),
        ({"ids": 0}, {}, {"model": {"decoupled": True}}, ["streams its answers", "remove padding"]),
        ({"ids": 0}, {}, {"model": {"decoupled": True}, "origin": "model"}, ["write padding: {inputs: {}}"]),
    ],
)
def test_what_does_not_fit_is_refused_with_field_and_remedy(
    inputs: Any, outputs: Any, rules: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(LoadError) as refused:
        settle(inputs, outputs, **rules)
    for word in words:
        assert word in str(refused.value)


def test_what_the_operator_says_stands_over_what_the_model_says_field_by_field() -> None:
    model = PaddingRules({"ids": 0}, {"hidden": 0}, (4, 8), 64, 3, "model")
    assert PaddingRules(buckets=(16,)).over(model) == PaddingRules({"ids": 0}, {"hidden": 0}, (16,), 64, 3, "model")
    assert PaddingRules({"ids": 1}, {}, (), 9, 0).over(model) == PaddingRules({"ids": 1}, {}, (), 9, 0)
    assert PaddingRules({"ids": 1}).over(None) == PaddingRules({"ids": 1})
