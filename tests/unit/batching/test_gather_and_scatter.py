"""Rows into one batch, rows back to their requests, and requests larger than a batch."""

from collections.abc import Sequence

import numpy as np
import pytest

from guepard.batching.gather import gather
from guepard.batching.scatter import scatter
from guepard.batching.split import split
from guepard.core.errors import ModelError
from guepard.core.model_config import ModelConfig
from guepard.core.phases import BatchStamps
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.response import InferenceResponse
from guepard.core.tensor import Array
from guepard.memory.heap_arena import HeapArena
from guepard.memory.slab_pool import SlabPool
from tests.unit.batching.arrivals import arriving, sender_of
from tests.unit.engine.configs import model_config

CONFIG: ModelConfig = model_config(max_batch_size=4)


def answer(part: InferenceRequest, outputs: Sequence[Array] | None = None) -> None:
    """What an execution does with its own part: twice the input, unless told otherwise."""
    if outputs is None:
        (array,) = part.arrays
        assert array is not None
        outputs = [array * 2]
    part.state = RequestState.RELEASED
    part.stamps = BatchStamps()
    part.sender.send(part, InferenceResponse(CONFIG, outputs), True)


class TestGather:
    def test_the_arrays_of_a_lone_request_are_not_copied(self) -> None:
        request = arriving(3)
        assert gather([request]) is request.arrays

    def test_rows_lie_in_the_order_of_the_requests(self) -> None:
        (array,) = gather([arriving(2, value=10), arriving(1, value=20), arriving(3, value=30)])
        assert array is not None
        assert array.tolist() == [[10], [11], [20], [30], [31], [32]]

    def test_every_input_is_laid_and_an_absent_one_stays_absent(self) -> None:
        requests = [arriving(2), arriving(1)]
        for number, request in enumerate(requests):
            (array,) = request.arrays
            assert array is not None
            request.arrays = [array, None, np.array([[b"%d" % number]] * request.rows, object)]
        first, absent, text = gather(requests)
        assert first is not None
        assert first.shape == (3, 1)
        assert absent is None
        assert text is not None
        assert text.tolist() == [[b"0"], [b"0"], [b"1"]]

    def test_with_buffers_large_batches_lie_in_a_lease_and_the_rest_as_ever(self) -> None:
        pool = SlabPool(HeapArena(), limit_bytes=2**20)
        requests = [arriving(2), arriving(3, value=7)]
        for request in requests:
            (array,) = request.arrays
            assert array is not None
            text = np.full((request.rows, 1), b"x", object)
            request.arrays = (array, None, np.zeros((request.rows, 100, 3), np.int64), text)
        small, absent, large, objects = gather(requests, pool, 4_096)
        assert small is not None
        assert small.reshape(-1).tolist() == [0, 1, 7, 8, 9]
        assert absent is None
        assert large is not None
        assert large.shape == (5, 100, 3)
        assert large.dtype == np.int64
        assert not large.any()
        assert objects is not None
        assert objects.tolist() == [[b"x"]] * 5
        assert pool.statistics().leased_bytes == 12_288  # of `large`, and nothing else
        rows = large[3:4]
        del large
        assert pool.statistics().leased_bytes == 12_288
        del rows
        assert pool.statistics().leased_bytes == 0

    def test_the_only_input_lies_in_a_lease_from_the_size_on_that_was_said(self) -> None:
        pool = SlabPool(HeapArena(), limit_bytes=2**20)
        requests = [arriving(2, value=10), arriving(2, value=20)]
        for pooled_from, leased in ((17, 0), (16, 4_096)):
            (array,) = gather(requests, pool, pooled_from)
            assert array is not None
            assert array.tolist() == [[10], [11], [20], [21]]
            assert pool.statistics().leased_bytes == leased
        lone = arriving(3)
        assert gather([lone], pool, 1) is lone.arrays

    def test_text_never_lies_in_a_lease(self) -> None:
        pool = SlabPool(HeapArena(), limit_bytes=2**20)
        requests = [arriving(2), arriving(1)]
        for request in requests:
            request.arrays = (np.full((request.rows, 1), b"x", object),)
        (array,) = gather(requests, pool, 1)
        assert array is not None
        assert array.tolist() == [[b"x"]] * 3
        assert pool.statistics().grown_count == 0

    def test_a_request_without_rows_takes_no_room(self) -> None:
        (array,) = gather([arriving(0), arriving(2, value=5)])
        assert array is not None
        assert array.tolist() == [[5], [6]]


class TestScatter:
    @pytest.mark.parametrize("rows", [[3], [1, 1], [2, 0, 3]])
    @pytest.mark.parametrize("output_count", [1, 2])
    def test_each_request_gets_the_rows_that_were_gathered_for_it(self, rows: list[int], output_count: int) -> None:
        requests = [arriving(count, value=10 * number) for number, count in enumerate(rows)]
        (batch,) = gather(requests)
        assert batch is not None
        outputs = [batch + offset for offset in range(output_count)]
        answers = list(scatter(requests, outputs))
        assert [request for request, _ in answers] == requests
        for request, parts in answers:
            (array,) = request.arrays
            assert array is not None
            assert [part.tolist() for part in parts] == [(array + offset).tolist() for offset in range(output_count)]

    def test_rows_are_views(self) -> None:
        requests = [arriving(1), arriving(1)]
        output = np.zeros((2, 1))
        assert all(np.shares_memory(parts[0], output) for _, parts in scatter(requests, [output]))


def parts_of(whole: InferenceRequest) -> list[InferenceRequest]:
    return split(whole, 4, whole.sender.fail)


class TestSplit:
    @pytest.mark.parametrize(("rows", "sizes"), [(9, [4, 4, 1]), (8, [4, 4]), (5, [4, 1])])
    def test_parts_cover_the_rows_in_order(self, rows: int, sizes: list[int]) -> None:
        parts = parts_of(arriving(rows))
        assert [part.rows for part in parts] == sizes
        (laid,) = gather(parts)
        assert laid is not None
        assert laid.reshape(-1).tolist() == list(range(rows))

    def test_a_part_says_what_its_request_says(self) -> None:
        whole = arriving(5, key="k", parameters={"a": 1})
        whole.id, whole.priority, whole.deadline, whole.requested_outputs = "r", 2, 77, ("y",)
        for part in parts_of(whole):
            assert (part.id, part.priority, part.deadline) == ("r", 2, 77)
            assert (part.batch_key, part.parameters, part.requested_outputs) == ("k", {"a": 1}, ("y",))
            assert part.whole is whole

    def test_an_optional_input_that_is_absent_stays_so(self) -> None:
        whole = arriving(5)
        whole.arrays = [whole.arrays[0], None]
        assert [part.arrays[1] for part in parts_of(whole)] == [None, None]

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
    def test_answers_are_joined_in_the_order_of_the_rows_whichever_comes_first(self, order: tuple[int, ...]) -> None:
        whole = arriving(9)
        parts = parts_of(whole)
        for index in order:
            assert sender_of(whole).ends == 0
            answer(parts[index])
        assert sender_of(whole).values == [2 * row for row in range(9)]
        assert whole.is_released
        assert whole.stamps is parts[order[-1]].stamps

    def test_every_output_is_joined(self) -> None:
        whole = arriving(5)
        for number, part in enumerate(parts_of(whole)):
            answer(part, [np.full((part.rows, 1), number), np.full((part.rows,), -number)])
        (response,) = sender_of(whole).responses
        assert [output.reshape(-1).tolist() for output in response.outputs] == [[0, 0, 0, 0, 1], [0, 0, 0, 0, -1]]

    def test_answers_that_differ_in_shape_are_a_failure_of_the_whole(self) -> None:
        whole = arriving(5)
        first, second = parts_of(whole)
        answer(first, [np.zeros((4, 2))])
        answer(second, [np.zeros((1, 3))])
        error = sender_of(whole).error
        assert isinstance(error, ModelError)
        assert error.message == (
            "the request was split into batches of 4 rows, whose answers differ in shape; send fewer rows"
        )

    def test_the_first_failure_is_the_answer_and_the_only_one(self) -> None:
        whole = arriving(9)
        first, second, third = parts_of(whole)
        answer(first)
        failure = ModelError("broken")
        second.sender.fail(second, failure)
        assert sender_of(whole).error is failure
        assert whole.is_released
        answer(third)
        third.sender.fail(third, ModelError("too"))
        assert sender_of(whole).ends == 1

    def test_a_request_that_was_given_up_gets_nothing_more(self) -> None:
        whole = arriving(5)
        parts = parts_of(whole)
        whole.state = RequestState.RELEASED
        for part in parts:
            answer(part)
        assert sender_of(whole).ends == 0
