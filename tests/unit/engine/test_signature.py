"""Names, datatypes and shapes: what fits, what does not, and what the caller is told."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import InputError
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Tensor, TensorSpec
from guepard.engine.signature import Signature
from tests.unit.batching.arrivals import RecordedSender
from tests.unit.engine.configs import model_config

Sent = tuple[str, str, Sequence[int]]

ONE = [TensorSpec("x", "FP32", [4])]
TWO = [TensorSpec("a", "INT64", [-1]), TensorSpec("b", "BYTES", [2], optional=True)]


def bound(inputs: Sequence[TensorSpec], *sent: Sent, max_batch_size: int = 8, **fields: Any) -> InferenceRequest:
    tensors = [Tensor(name, kind, np.zeros(tuple(shape), DATATYPES[kind].dtype)) for name, kind, shape in sent]
    request = InferenceRequest(tensors, RecordedSender(), 0)
    for name, value in fields.items():
        setattr(request, name, value)
    Signature(model_config(inputs=tuple(inputs), max_batch_size=max_batch_size)).bind(request)
    return request


class TestWhatFits:
    def test_the_first_dimension_is_the_rows(self) -> None:
        request = bound(ONE, ("x", "FP32", [3, 4]))
        assert (request.rows, request.batch_key) == (3, None)
        assert request.arrays[0] is request.tensors[0].array

    def test_no_rows_are_a_batch_too(self) -> None:
        assert bound(ONE, ("x", "FP32", [0, 4])).rows == 0

    def test_a_model_without_batches_takes_its_dims_and_counts_one(self) -> None:
        request = bound(ONE, ("x", "FP32", [4]), max_batch_size=0)
        assert (request.rows, request.batch_key) == (1, None)

    def test_a_scalar_of_a_model_without_batches(self) -> None:
        assert bound([TensorSpec("x", "INT32", [])], ("x", "INT32", []), max_batch_size=0).rows == 1

    def test_rows_alone_for_a_model_whose_dims_are_empty(self) -> None:
        assert bound([TensorSpec("x", "INT32", [])], ("x", "INT32", [5])).rows == 5

    def test_inputs_in_any_order_land_in_the_model_s_order(self) -> None:
        request = bound(TWO, ("b", "BYTES", [2, 2]), ("a", "INT64", [2, 7]))
        assert [tensor.shape for tensor in request.arrays if tensor is not None] == [(2, 7), (2, 2)]
        assert request.batch_key == ((7,), (2,))

    def test_an_optional_input_may_be_left_out_and_such_requests_do_not_mix_with_others(self) -> None:
        without = bound(TWO, ("a", "INT64", [2, 7]))
        assert without.arrays[1] is None
        assert without.batch_key == ((7,), None)
        assert without.batch_key != bound(TWO, ("a", "INT64", [2, 7]), ("b", "BYTES", [2, 2])).batch_key

    def test_a_free_dimension_is_part_of_the_key(self) -> None:
        spec = [TensorSpec("x", "FP32", [-1])]
        keys = [bound(spec, ("x", "FP32", [rows, length])).batch_key for rows, length in ((1, 3), (2, 3), (1, 5))]
        assert keys[0] == keys[1] != keys[2]

    def test_requests_of_a_model_without_batches_need_no_key(self) -> None:
        assert bound([TensorSpec("x", "FP32", [-1])], ("x", "FP32", [5]), max_batch_size=0).batch_key is None

    def test_an_output_that_is_asked_for_by_its_name(self) -> None:
        assert bound(ONE, ("x", "FP32", [1, 4]), requested_outputs=("y",)).rows == 1


class TestWhatDoesNot:
    @pytest.mark.parametrize(
        ("inputs", "sent", "message"),
        [
            (ONE, [("x", "FP64", [1, 4])], "input 'x': expected datatype FP32, got FP64"),
            (ONE, [("x", "FP32", [1, 5])], r"'x': expected shape [-1, 4], where -1 is the batch, got [1, 5]"),
            (ONE, [("x", "FP32", [4])], r"'x': expected shape [-1, 4], where -1 is the batch, got [4]"),
            (ONE, [("x", "FP32", [])], r"got []"),
            (ONE, [("x", "FP32", [1, 1, 4])], r"got [1, 1, 4]"),
            (ONE, [("z", "FP32", [1, 4])], "input 'z' is no input of model 'm'; it has 'x'"),
            (ONE, [], "input 'x' is missing; model 'm' needs 'x'"),
            (ONE, [("x", "FP32", [1, 4])] * 2, "input 'x' is given twice; send each input once"),
            (TWO, [("b", "BYTES", [1, 2])], "input 'a' is missing; model 'm' needs 'a', 'b'"),
            (
                TWO,
                [("a", "INT64", [2, 7]), ("b", "BYTES", [3, 2])],
                "input 'b': batch size 3 differs from the 2 of the inputs before it",
            ),
            ([TensorSpec("x", "INT32", [])], [("x", "INT32", [])], "got []"),
        ],
    )
    def test_the_message_names_the_input_what_it_should_be_and_what_came(
        self, inputs: list[TensorSpec], sent: list[Sent], message: str
    ) -> None:
        with pytest.raises(InputError) as refusal:
            bound(inputs, *sent)
        assert message in refusal.value.message

    def test_a_shape_with_a_batch_for_a_model_without(self) -> None:
        with pytest.raises(InputError, match=r"expected shape \[4\], got \[1, 4\]"):
            bound(ONE, ("x", "FP32", [1, 4]), max_batch_size=0)

    def test_bfloat16_bits_are_not_uint16_numbers(self) -> None:
        with pytest.raises(InputError, match="expected datatype BF16, got UINT16"):
            bound([TensorSpec("x", "BF16", [4])], ("x", "UINT16", [1, 4]))

    @pytest.mark.parametrize("inputs", [ONE, TWO])
    def test_an_output_that_does_not_exist(self, inputs: list[TensorSpec]) -> None:
        sent: Sent = ("x", "FP32", [1, 4]) if inputs is ONE else ("a", "INT64", [1, 4])
        with pytest.raises(InputError, match="outputs: 'nope' is no output of model 'm'; it has 'y'"):
            bound(inputs, sent, requested_outputs=("y", "nope"))
