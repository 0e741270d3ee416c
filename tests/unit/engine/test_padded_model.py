"""A served model with padding, from door to answer: own length, own rows, whatever else is in the batch."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guepard.core.errors import InputError, ModelError
from guepard.core.model_config import MILLISECOND, DynamicBatching
from guepard.core.padding import CutOutput, PaddedInput, Padding
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array, Tensor, TensorSpec
from tests.unit.batching.arrivals import RecordedSender, sender_of
from tests.unit.engine.stage import Stage

PADDING = Padding((PaddedInput("x", 0, 1, np.float32(0)),), (CutOutput("y", 0, 1),))


def doubled(array: Array) -> Array:
    """Twice every place, plus the sum of what came before it in the row: padding at the end is never seen."""
    if (array < 0).any():
        raise ArithmeticError("a negative place")
    answer: Array = array * 2 + np.cumsum(array, axis=1)
    return answer


def stage_of(function: Callable[[Any], Any] = doubled, padding: Padding = PADDING, **config: Any) -> Stage:
    fields: dict[str, Any] = {
        "execution": "inline",
        "inputs": (TensorSpec("x", "FP32", [-1]),),
        "outputs": (TensorSpec("y", "FP32", [-1]),),
        "dynamic_batching": DynamicBatching(10 * MILLISECOND),
        "max_batch_size": 4,
    }
    return Stage(function, padding=padding, **fields | config)


def ask(stage: Stage, rows: Sequence[Sequence[float]]) -> InferenceRequest:
    array = np.array(rows, np.float32).reshape(len(rows), -1)
    request = InferenceRequest([Tensor("x", "FP32", array)], RecordedSender(), stage.clock.now())
    stage.served.infer(request)
    return request


def answer_of(request: InferenceRequest) -> Array:
    (response,) = sender_of(request).responses
    output: Array = response.outputs[0]
    return output


def test_two_lengths_share_an_execution_and_each_has_its_own_answer() -> None:
    stage = stage_of()
    short, long = ask(stage, [[1, 2]]), ask(stage, [[3, 4, 5]])
    stage.clock.advance(10 * MILLISECOND)
    assert stage.executor.runs == [[1, 2, 0, 3, 4, 5]]
    assert answer_of(short).tolist() == [[3, 7]]
    assert answer_of(long).tolist() == [[9, 15, 22]]


def test_what_executions_were_spent_on_is_counted_for_models_with_padding_alone() -> None:
    stage = stage_of()
    for rows in ([[1, 2]], [[3, 4, 5]], [[6]]):
        ask(stage, rows)
    stage.clock.advance(10 * MILLISECOND)
    assert stage.served.statistics.read().tokens == (6, 3)
    plain = Stage(execution="inline")
    plain.send(1)
    plain.clock.turn()
    assert plain.served.statistics.read().tokens is None


def test_one_that_breaks_its_batch_fails_alone_and_the_others_are_padded_anew() -> None:
    stage = stage_of()
    requests = [ask(stage, [row]) for row in ([1, 2], [-1, 2, 3, 4, 5], [6, 7, 8])]
    stage.clock.advance(10 * MILLISECOND)
    assert answer_of(requests[0]).tolist() == [[3, 7]]
    assert isinstance(sender_of(requests[1]).error, ModelError)
    assert answer_of(requests[2]).tolist() == [[18, 27, 37]]


def test_a_request_larger_than_a_batch_comes_back_whole() -> None:
    stage = stage_of()
    rows = [[float(row), 1.0] for row in range(9)]
    large, long = ask(stage, rows), ask(stage, [[1, 1, 1]])
    stage.clock.advance(10 * MILLISECOND)
    np.testing.assert_array_equal(answer_of(large), doubled(np.array(rows, np.float32)))
    assert answer_of(long).tolist() == [[3, 4, 5]]


def test_an_output_that_is_not_as_long_is_a_failure_that_says_so() -> None:
    stage = stage_of(lambda array: array[:, :2])
    request, alone = ask(stage, [[1, 2, 3]]), ask(stage, [[1, 2]])
    stage.clock.advance(10 * MILLISECOND)
    error = sender_of(request).error
    assert isinstance(error, ModelError)
    assert error.message == (
        "model 'm' returned output 'y' of shape [1, 2] for a batch of length 3, and padding.outputs says that "
        "dimension 1 is as long"
    )
    assert answer_of(alone).tolist() == [[1, 2]]


def test_the_check_of_lengths_is_at_the_door() -> None:
    stage = stage_of(
        inputs=(TensorSpec("x", "FP32", [-1]), TensorSpec("mask", "FP32", [-1])),
        padding=Padding((*PADDING.inputs, PaddedInput("mask", 1, 1, np.float32(0)))),
    )
    tensors = [Tensor(name, "FP32", np.ones((1, size), np.float32)) for name, size in (("x", 2), ("mask", 3))]
    request = InferenceRequest(tensors, RecordedSender(), stage.clock.now())
    stage.served.infer(request)
    assert isinstance(sender_of(request).error, InputError)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 12), st.booleans()), min_size=1, max_size=20),
    st.sampled_from([(), (4, 8)]),
    st.sampled_from([16, 1_000]),
    st.sampled_from([0, 3, 1_000]),
)
def test_everyone_gets_the_answer_of_their_request_alone(
    sent: list[tuple[int, int, bool]], buckets: tuple[int, ...], max_tokens: int, max_padding: int
) -> None:
    """Splits, bisections, buckets and bounds together. A request that breaks its batch breaks no other."""
    padding = Padding(PADDING.inputs, PADDING.outputs, buckets, max_tokens, max_padding)
    stage = stage_of(padding=padding)
    asked = []
    for number, (rows, length, breaks) in enumerate(sent):
        array = np.arange(rows * length, dtype=np.float32).reshape(rows, length) + number
        if breaks and length:
            array[0, -1] = -1
        request = InferenceRequest([Tensor("x", "FP32", array)], RecordedSender(), stage.clock.now())
        stage.served.infer(request)
        asked.append((array, request))
    stage.clock.advance(100 * MILLISECOND)
    own = 0
    for array, request in asked:
        sender = sender_of(request)
        assert sender.ends == 1
        if (array < 0).any():
            assert isinstance(sender.error, ModelError)
        else:
            np.testing.assert_array_equal(answer_of(request), doubled(array))
            own += array.size
    tokens = stage.served.statistics.read().tokens
    assert (tokens.request if tokens else 0) >= own


@pytest.mark.parametrize("buckets", [(), (4, 8)])
def test_a_lone_request_is_padded_where_shapes_are_fixed_and_not_otherwise(buckets: tuple[int, ...]) -> None:
    stage = stage_of(padding=Padding(PADDING.inputs, PADDING.outputs, buckets))
    lone = ask(stage, [[1, 2, 3]])
    stage.clock.advance(10 * MILLISECOND)
    assert stage.executor.runs == [[1, 2, 3, *([0] if buckets else [])]]
    assert answer_of(lone).tolist() == [[3, 7, 12]]
