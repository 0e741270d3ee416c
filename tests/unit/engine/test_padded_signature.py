"""Requests of models with padding: which lengths fit together, and which requests may share a batch."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from guepard.core.errors import InputError
from guepard.core.padding import PaddedInput, Padding
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Tensor, TensorSpec
from guepard.engine.padded_signature import signature_for
from guepard.engine.signature import Signature
from tests.unit.batching.arrivals import RecordedSender
from tests.unit.engine.configs import model_config

IDS, MASK = TensorSpec("ids", "INT64", [-1]), TensorSpec("mask", "INT64", [-1])
SCALE = TensorSpec("scale", "INT64", [2])
PADDED = (PaddedInput("ids", 0, 1, 0), PaddedInput("mask", 1, 1, 0))


def bound(
    shapes: Mapping[str, Sequence[int]],
    inputs: Sequence[TensorSpec] = (IDS, MASK, SCALE),
    padded: Sequence[PaddedInput] = PADDED,
) -> InferenceRequest:
    tensors = [Tensor(name, "INT64", np.zeros(tuple(shape), np.int64)) for name, shape in shapes.items()]
    request = InferenceRequest(tensors, RecordedSender(), 0)
    signature_for(model_config(inputs=tuple(inputs), padding=Padding(tuple(padded)))).bind(request)
    return request


def test_requests_that_differ_in_length_alone_may_meet() -> None:
    short, long = ({"ids": [1, n], "mask": [1, n], "scale": [1, 2]} for n in (3, 9))
    assert bound(short).batch_key == bound(long).batch_key


def test_other_free_dimensions_and_absent_inputs_still_part_them() -> None:
    inputs = [IDS, TensorSpec("image", "INT64", [-1, -1]), TensorSpec("mask", "INT64", [-1], optional=True)]
    padded = (PADDED[0], PaddedInput("mask", 2, 1, 0))

    def key(length: int, size: int, *, masked: bool) -> object:
        shapes: dict[str, Sequence[int]] = {"ids": [1, length], "image": [1, 4, size]}
        return bound(shapes | ({"mask": [1, length]} if masked else {}), inputs, padded).batch_key

    assert key(3, 5, masked=True) == key(9, 5, masked=True)
    assert len({key(3, size, masked=masked) for size in (5, 6) for masked in (True, False)}) == 4


def test_an_inner_axis_is_left_out_and_the_others_stay() -> None:
    def key(*shape: int) -> object:
        inputs = [TensorSpec("x", "INT64", [4, -1]), TensorSpec("y", "INT64", [-1])]
        return bound({"x": shape, "y": [1, 7]}, inputs, [PaddedInput("x", 0, 2, 0)]).batch_key

    assert key(1, 4, 3) == key(1, 4, 8) == ((4, -1), (7,))


def test_padded_inputs_of_one_request_are_equally_long() -> None:
    with pytest.raises(InputError) as refused:
        bound({"ids": [1, 3], "mask": [1, 4], "scale": [1, 2]})
    assert refused.value.message == (
        "input 'mask' has length 4 and input 'ids' 3; the model pads both together, so send them equally long"
    )


def test_requests_of_no_tokens_meet_their_like_alone() -> None:
    """Padded they would be rows of padding, and no row of padding answers as no tokens do."""
    empty, full = (bound({"ids": [2, n], "mask": [2, n], "scale": [2, 2]}).batch_key for n in (0, 3))
    assert empty != full


def test_what_never_fitted_does_not_fit_now() -> None:
    with pytest.raises(InputError, match="expected shape"):
        bound({"ids": [1, 3, 3], "mask": [1, 3], "scale": [1, 2]})


def test_a_model_without_padding_has_the_plain_check() -> None:
    assert type(signature_for(model_config())) is Signature
