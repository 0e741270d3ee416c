"""Requests of different lengths in the arrays of one batch, and its answers at each request's own length."""

from typing import Any

import numpy as np
import pytest

from guepard.batching.padding import gather_padded, padded_length, scatter_padded, token_counts, wrong_length
from guepard.batching.split import split
from guepard.core.padding import CutOutput, PaddedInput
from guepard.core.request import InferenceRequest
from tests.unit.batching.arrivals import arriving
from tests.unit.batching.lengths import padding, run, sequence


def only(array: Any, axis: int) -> InferenceRequest:
    request = arriving(len(array))
    request.arrays = [array]
    request.length = array.shape[axis]
    return request


@pytest.mark.parametrize(
    ("longest", "buckets", "expected"),
    [(5, (), 5), (5, (4, 8), 8), (4, (4, 8), 4), (8, (4, 8), 8), (9, (4, 8), 9), (0, (4, 8), 0), (1, (4,), 4)],
)
def test_a_batch_is_as_long_as_the_next_bucket_or_as_its_longest(
    longest: int, buckets: tuple[int, ...], expected: int
) -> None:
    assert padded_length([sequence(longest), sequence(0)], padding(buckets=buckets)) == expected


class TestGather:
    def test_the_end_is_filled_and_what_is_not_padded_stays(self) -> None:
        first, second = sequence(2, seed=1), sequence(4, rows=2, seed=2)
        ids, mask, scale = gather_padded([first, second], padding())
        assert ids is not None
        assert mask is not None
        assert scale is not None
        assert ids.tolist() == [[*first.arrays[0][0].tolist(), -7, -7], *second.arrays[0].tolist()]  # type: ignore[index, union-attr]
        assert mask.tolist() == [[1, 1, 0, 0], [1] * 4, [1] * 4]
        assert scale.tolist() == [[2, 2], [3, 3], [3, 3]]
        assert ids.dtype == np.int64

    def test_equal_lengths_are_gathered_as_ever(self) -> None:
        lone = sequence(3)
        assert gather_padded([lone], padding()) is lone.arrays
        (ids, _, _) = gather_padded([sequence(3), sequence(3)], padding())
        assert ids is not None
        assert ids.shape == (2, 3)

    def test_a_lone_request_is_brought_to_its_bucket_without_copying_the_rest(self) -> None:
        lone = sequence(3, rows=2)
        ids, mask, scale = gather_padded([lone], padding(buckets=(2, 5)))
        assert ids is not None
        assert mask is not None
        assert (ids.shape, ids[:, 3:].tolist()) == ((2, 5), [[-7, -7]] * 2)
        assert mask.sum(axis=1).tolist() == [3, 3]
        assert scale is lone.arrays[2]

    @pytest.mark.parametrize("axis", [1, 2, 3])
    def test_any_axis_may_be_the_free_one(self, axis: int) -> None:
        shapes = [[2, 3, 4, 5], [1, 3, 4, 5]]
        shapes[0][axis], shapes[1][axis] = 2, 6
        requests = [only(np.random.default_rng(1).normal(size=shape), axis) for shape in shapes]
        (laid,) = gather_padded(requests, padding(inputs=(PaddedInput("x", 0, axis, 0.5),), outputs=()))
        assert laid is not None
        expected = [list(shape) for shape in shapes]
        assert laid.shape == (3, *[6 if each == axis else size for each, size in enumerate(expected[0])][1:])
        own, filled = np.split(laid[:2], [2], axis=axis)
        np.testing.assert_array_equal(own, requests[0].arrays[0])
        assert (filled == 0.5).all()
        np.testing.assert_array_equal(laid[2:], requests[1].arrays[0])

    def test_an_absent_optional_input_stays_absent(self) -> None:
        requests = [sequence(2), sequence(3)]
        for request in requests:
            request.arrays = [request.arrays[0], None, request.arrays[2]]
        assert gather_padded(requests, padding())[1] is None

    def test_requests_without_rows_take_no_room(self) -> None:
        ids, _, _ = gather_padded([sequence(5, rows=0), sequence(2)], padding())
        assert ids is not None
        assert ids.shape == (1, 5)


class TestScatter:
    def test_outputs_that_follow_are_cut_and_others_are_not(self) -> None:
        requests = [sequence(2, seed=1), sequence(4, rows=2, seed=2), sequence(1, seed=3)]
        outputs = run(gather_padded(requests, padding()))
        for request, answer in scatter_padded(requests, outputs, padding()):
            for found, expected in zip(answer, run(request.arrays), strict=True):
                np.testing.assert_array_equal(found, expected)
            assert all(np.shares_memory(found, output) for found, output in zip(answer, outputs, strict=True))

    def test_a_lone_request_in_a_bucket_is_cut_too(self) -> None:
        request = sequence(3)
        outputs = run(gather_padded([request], padding(buckets=(8,))))
        ((_, (_, hidden)),) = scatter_padded([request], outputs, padding(buckets=(8,)))
        assert hidden.shape == (1, 3)

    def test_an_inner_axis_is_cut(self) -> None:
        requests = [sequence(2), sequence(3)]
        outputs = [np.zeros((2, 7, 3, 4))]
        cut = padding(outputs=(CutOutput("y", 0, 2),))
        assert [answer[0].shape for _, answer in scatter_padded(requests, outputs, cut)] == [(1, 7, 2, 4), (1, 7, 3, 4)]

    def test_nothing_to_cut_is_scattered_as_ever(self) -> None:
        requests = [sequence(2), sequence(3)]
        answers = list(scatter_padded(requests, [np.arange(2)], padding(outputs=())))
        assert [answer[0].tolist() for _, answer in answers] == [[0], [1]]


@pytest.mark.parametrize(("shape", "is_wrong"), [((2, 3), False), ((2, 4), True), ((2,), True)])
def test_an_output_that_does_not_follow_is_found(shape: tuple[int, ...], is_wrong: bool) -> None:
    requests = [sequence(2), sequence(3)]
    found = wrong_length(requests, [np.zeros(2), np.zeros(shape)], padding())
    assert found == (("hidden", 1, 1), 3) if is_wrong else found is None
    assert wrong_length(requests, [], padding(outputs=())) is None


def test_tokens_of_requests_and_of_padding_are_told_apart() -> None:
    assert token_counts([sequence(2), sequence(4, rows=3)], padding(buckets=(6,))) == (14, 10)


def test_parts_of_a_large_request_keep_its_length() -> None:
    whole = sequence(3, rows=5)
    parts = split(whole, 2, whole.sender.fail)
    assert [padding().length_of(part.arrays) for part in parts] == [3, 3, 3]
