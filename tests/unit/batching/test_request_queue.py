"""The buckets of waiting requests and their counts."""

import pytest

from guepard.batching.request_queue import RequestQueue
from guepard.core.request import InferenceRequest
from tests.unit.batching.arrivals import arriving


def queue_of(*requests: InferenceRequest) -> RequestQueue:
    queue = RequestQueue()
    for age, request in enumerate(requests):
        request.queue_start = age
        queue.push(request)
    return queue


def test_counts_follow_what_comes_and_goes() -> None:
    first, second, third = arriving(2), arriving(3), arriving(4, key="other")
    queue = queue_of(first, second, third)
    assert (queue.count, queue.rows) == (3, 9)
    queue.remove(second)
    assert (queue.count, queue.rows) == (2, 6)
    assert list(queue) == [first, third]
    queue.take(queue.oldest_bucket(), 8, 8)
    queue.take(queue.oldest_bucket(), 8, 8)
    assert (queue.count, queue.rows, list(queue)) == (0, 0, [])


@pytest.mark.parametrize(
    ("rows", "max_rows", "max_requests", "taken"),
    [
        ([1, 1, 1], 8, 8, 3),
        ([1, 1, 1], 8, 2, 2),
        ([3, 3, 3], 8, 8, 2),
        ([3, 5, 1], 8, 8, 2),
        ([3, 6, 1], 8, 8, 1),
        ([9, 1], 8, 8, 1),
        ([0, 8, 0], 8, 8, 3),
    ],
)
def test_take_gives_the_first_that_fit(rows: list[int], max_rows: int, max_requests: int, taken: int) -> None:
    requests = [arriving(count) for count in rows]
    queue = queue_of(*requests)
    batch, batch_rows = queue.take(queue.oldest_bucket(), max_rows, max_requests)
    assert batch == requests[:taken]
    assert batch_rows == sum(rows[:taken])
    assert list(queue) == requests[taken:]


def test_buckets_come_by_the_age_of_their_heads() -> None:
    requests = [arriving(key=key) for key in ("a", "b", "a", "c")]
    queue = queue_of(*requests)
    assert [bucket[0] for bucket in queue.buckets_by_age()] == [requests[0], requests[1], requests[3]]
    queue.remove(requests[0])
    assert queue.oldest_bucket()[0] is requests[1]
    assert [bucket[0] for bucket in queue.buckets_by_age()] == [requests[1], requests[2], requests[3]]


def test_equal_looking_requests_are_told_apart() -> None:
    first, second = arriving(), arriving()
    queue = queue_of(first, second)
    queue.remove(second)
    assert list(queue) == [first]


def test_a_bucket_that_was_emptied_is_forgotten_and_may_come_back() -> None:
    queue = queue_of(arriving(key="a"), arriving(key="b"))
    queue.take(queue.oldest_bucket(), 1, 1)
    assert len(queue.buckets_by_age()) == 1
    late = arriving(key="a")
    late.queue_start = 5
    queue.push(late)
    assert [bucket[0].batch_key for bucket in queue.buckets_by_age()] == ["b", "a"]
