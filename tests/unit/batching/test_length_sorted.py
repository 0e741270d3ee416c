"""Which requests go together: the oldest and those nearest in length, within rows, requests, tokens and padding."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guepard.batching.length_sorted import LengthSortedQueue
from guepard.batching.padding import gather_padded, padded_length, scatter_padded, token_counts
from guepard.core.padding import NO_BOUND
from guepard.core.reasons import ReleaseReason
from guepard.core.request import InferenceRequest
from tests.unit.batching.lengths import padding, run, sequence
from tests.unit.batching.waiting_room import WaitingRoom


def queue_of(*lengths: int, rows: int = 1, **fields: Any) -> LengthSortedQueue:
    queue = LengthSortedQueue(padding(**fields))
    for age, length in enumerate(lengths):
        request = sequence(length, rows)
        request.queue_start = age
        queue.push(request)
    return queue


def taken(queue: LengthSortedQueue, max_rows: int = 64, max_requests: int = 1_000) -> list[int]:
    requests, rows = queue.take(queue.oldest_bucket(), max_rows, max_requests)
    assert rows == sum(request.rows for request in requests)
    return [request.length for request in requests]


class TestNeighbours:
    def test_the_oldest_goes_with_the_nearest_in_length(self) -> None:
        queue = queue_of(11, 3, 40, 10, 12, 9, 41, 3)
        assert taken(queue, max_rows=4) == [9, 10, 11, 12]
        assert taken(queue, max_rows=4) == [3, 3, 40, 41]
        assert queue.count == queue.rows == 0

    def test_the_oldest_goes_first_however_unlike_the_others(self) -> None:
        queue = queue_of(500, 1, 1, 1, 1, max_padding=10)
        assert taken(queue) == [500]
        assert queue.stopped_by is ReleaseReason.SHAPE
        assert taken(queue) == [1, 1, 1, 1]
        assert queue.stopped_by is None

    def test_of_equal_lengths_nobody_is_passed_over(self) -> None:
        queue = queue_of(4, 4, 4, 4, max_padding=0)
        requests = list(queue)
        assert queue.take(queue.oldest_bucket(), 3, 1_000)[0] == requests[:3]

    def test_padding_that_costs_more_than_it_saves_is_refused(self) -> None:
        assert taken(queue_of(10, 8, 7, max_padding=2)) == [8, 10]
        assert taken(queue_of(10, 8, 7, max_padding=3)) == [7, 8, 10]
        assert taken(queue_of(10, 10, 14, max_padding=7)) == [10, 10]  # it would lengthen both
        assert taken(queue_of(10, 10, 14, max_padding=8)) == [10, 10, 14]

    def test_within_a_bucket_padding_costs_nothing_more(self) -> None:
        assert taken(queue_of(3, 1, 8, 9, 16, buckets=(8, 16), max_padding=0)) == [1, 3, 8]

    def test_what_went_through_another_door_is_gone(self) -> None:
        queue = queue_of(5, 6, 7)
        middle = list(queue)[1]
        queue.remove(middle)
        assert taken(queue) == [5, 7]
        assert not queue.buckets_by_age()


class TestBounds:
    @pytest.mark.parametrize(("max_tokens", "expected"), [(29, [10, 10]), (30, [10, 10, 10]), (40, [9, 10, 10, 10])])
    def test_rows_times_length_stay_below_the_budget(self, max_tokens: int, expected: list[int]) -> None:
        queue = queue_of(10, 9, 10, 10, max_tokens=max_tokens)
        assert sorted(taken(queue)) == expected
        assert queue.stopped_by is (None if max_tokens == 40 else ReleaseReason.FULL)

    def test_a_request_above_the_budget_runs_alone(self) -> None:
        queue = queue_of(100, 100, 1, max_tokens=50)
        assert (taken(queue), taken(queue), taken(queue)) == ([100], [100], [1])

    def test_the_budget_counts_the_bucket_and_all_rows(self) -> None:
        assert taken(queue_of(3, 3, 3, rows=2, buckets=(8,), max_tokens=32)) == [3, 3]

    def test_rows_and_requests_are_bounded_as_ever(self) -> None:
        assert taken(queue_of(3, 3, 3, rows=2), max_rows=4) == [3, 3]
        assert taken(queue_of(3, 3, 3), max_requests=2) == [3, 3]
        assert taken(queue_of(3, 3, rows=9), max_rows=4) == [3]

    def test_keys_that_differ_never_meet(self) -> None:
        queue = LengthSortedQueue(padding())
        for age, key in enumerate("aba"):
            request = sequence(2, key=key)
            request.queue_start = age
            queue.push(request)
        assert [len(bucket) for bucket in queue.buckets_by_age()] == [2, 1]


class TestBatcher:
    def test_a_batch_full_of_tokens_does_not_wait_for_its_delay(self) -> None:
        room = WaitingRoom(delay_ms=50, max_batch_size=64, padding=padding(max_tokens=40))
        for _ in range(3):
            room.batcher.enqueue(sequence(10))
        room.turn()
        assert room.released == []
        room.batcher.enqueue(sequence(10))
        room.turn()
        assert (room.sizes, room.reasons) == ([4], [ReleaseReason.FULL])

    def test_one_that_tokens_keep_small_left_because_it_was_full(self) -> None:
        room = WaitingRoom(padding=padding(max_tokens=20))
        for length in (10, 10, 10, 4):
            room.batcher.enqueue(sequence(length))
        room.turn()
        room.free()
        assert (room.sizes, room.reasons) == ([2, 2], [ReleaseReason.FULL, ReleaseReason.IDLE])

    def test_one_that_padding_keeps_small_left_for_its_shape(self) -> None:
        room = WaitingRoom(padding=padding(max_padding=1))
        for length in (10, 30):
            room.batcher.enqueue(sequence(length))
        room.turn()
        assert room.reasons == [ReleaseReason.SHAPE]


drawn = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3), st.sampled_from("aab")), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(
    drawn,
    st.sampled_from([(), (8,), (4, 16, 32)]),
    st.sampled_from([NO_BOUND, 32, 100]),
    st.sampled_from([NO_BOUND, 0, 5, 40]),
    st.sampled_from([1, 3, 8]),
    st.sampled_from([0, 10]),
    st.integers(1, 3),
)
def test_everyone_gets_their_own_answer_whoever_they_meet(
    arrivals: list[tuple[int, int, str]],
    buckets: tuple[int, ...],
    max_tokens: int,
    max_padding: int,
    max_batch_size: int,
    delay_ms: int,
    instances: int,
) -> None:
    """The batches of a real batcher run on a model worked out in numpy; each answer is that of the request alone."""
    rules = padding(buckets=buckets, max_tokens=max_tokens, max_padding=max_padding)
    room = WaitingRoom(padding=rules, max_batch_size=max_batch_size, delay_ms=delay_ms, instances=instances)
    sent: list[InferenceRequest] = []
    for seed, (length, rows, key) in enumerate(arrivals):
        request = sequence(length, min(rows, max_batch_size), seed=seed, key=(key, not length))
        sent.append(request)
        room.batcher.enqueue(request)
    for _ in range(2 * len(sent) + 2):
        room.advance_ms(delay_ms)
        if room.running:
            room.free()
    answered: list[InferenceRequest] = []
    for release in room.released:
        requests = release.requests
        length = padded_length(requests, rules)
        waiting = [request for request in sent if request not in answered]
        oldest = {request.batch_key: request for request in reversed(waiting)}
        assert oldest[requests[0].batch_key] in requests
        assert len(requests) == 1 or release.rows * length <= max_tokens
        assert len(requests) == 1 or release.rows <= max_batch_size
        alone = sum(request.rows * rules.padded_length(request.length) for request in requests)
        assert release.rows * length - alone <= (len(requests) - 1) * max_padding
        assert sum(token_counts(requests, rules)) == release.rows * length
        outputs = run(gather_padded(requests, rules))
        for request, answer in scatter_padded(requests, outputs, rules):
            for found, expected in zip(answer, run(request.arrays), strict=True):
                np.testing.assert_array_equal(found, expected)
            answered.append(request)
    assert sorted(map(id, answered)) == sorted(map(id, sent))
    assert room.batcher.queue.count == room.batcher.queue.rows == 0


def test_a_long_queue_costs_each_request_little() -> None:
    """Four times the queue may cost a request more by the pointers that move, and not four times as much."""

    def cost(count: int) -> float:
        requests = [sequence(int(length)) for length in np.random.default_rng(1).integers(1, 512, count)]
        best = float("inf")
        for _ in range(3):
            queue = LengthSortedQueue(padding(max_padding=8))
            start = time.process_time()
            for age, request in enumerate(requests):
                request.queue_start = age
                queue.push(request)
            while queue.count:
                queue.take(queue.oldest_bucket(), 8, 1_000)
            best = min(best, time.process_time() - start)
        return best / count

    assert cost(4_000) < 3 * cost(1_000)
