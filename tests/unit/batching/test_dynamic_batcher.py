"""When batches leave, of whom they are made, and what the waiting room refuses."""

from typing import Any

import pytest

from guepard.batching.dynamic_batcher import Batch
from guepard.batching.split import split
from guepard.core.errors import QueueFull
from guepard.core.reasons import ReleaseReason
from guepard.core.request import RequestState
from tests.unit.batching.arrivals import arriving
from tests.unit.batching.waiting_room import WaitingRoom

FULL, PREFERRED, DELAY, IDLE, SHAPE = (
    ReleaseReason.FULL,
    ReleaseReason.PREFERRED,
    ReleaseReason.DELAY,
    ReleaseReason.IDLE,
    ReleaseReason.SHAPE,
)


class TestWithoutDelay:
    def test_what_one_turn_of_the_loop_brought_leaves_together(self) -> None:
        room = WaitingRoom()
        requests = room.arrive(3)
        assert room.released == []
        room.turn()
        assert [release.requests for release in room.released] == [requests]
        assert room.reasons == [IDLE]
        assert room.clock.armed == 0

    def test_a_full_batch_leaves_within_the_turn(self) -> None:
        room = WaitingRoom(max_batch_size=4)
        requests = room.arrive(5)
        assert [release.requests for release in room.released] == [requests[:4]]
        assert room.reasons == [FULL]

    def test_the_batch_grows_while_instances_are_busy_and_leaves_when_one_is_free(self) -> None:
        room = WaitingRoom(max_batch_size=8)
        room.arrive()
        room.turn()
        for _ in range(3):
            room.arrive(2)
            room.advance_ms(5)
        assert room.sizes == [1]
        room.free()
        assert room.sizes == [1, 6]
        assert room.released[1].at_ms == 15

    def test_a_freed_instance_takes_no_more_than_the_maximum_and_the_rest_waits(self) -> None:
        room = WaitingRoom(max_batch_size=4)
        requests = room.arrive(11)
        for _ in range(3):
            room.free()
        assert [release.requests for release in room.released] == [requests[:4], requests[4:8], requests[8:]]
        assert room.reasons == [FULL, FULL, IDLE]

    def test_rows_count_rather_than_requests(self) -> None:
        room = WaitingRoom(max_batch_size=8)
        room.arrive(10, rows=3)
        while room.running:
            room.free()
        assert room.sizes == [6, 6, 6, 6, 6]

    def test_a_model_without_batches_runs_one_request_at_a_time(self) -> None:
        room = WaitingRoom(max_batch_size=0)
        requests = room.arrive(3)
        assert [release.requests for release in room.released] == [requests[:1]]
        room.free()
        room.free()
        assert [release.requests for release in room.released] == [[request] for request in requests]


class TestLoneRequests:
    def test_after_four_lone_turns_a_request_goes_at_once(self) -> None:
        room = WaitingRoom(inline=True)
        waited = []
        for _ in range(8):
            before = len(room.released)
            room.arrive()
            waited.append(len(room.released) == before)
            room.turn()
        assert waited == [True] * 4 + [False] * 4

    def test_now_and_then_one_waits_for_the_end_of_the_turn_to_see_what_else_comes(self) -> None:
        room = WaitingRoom(inline=True)
        waited = []
        for number in range(1, 65):
            before = len(room.released)
            room.arrive()
            if len(room.released) == before:
                waited.append(number)
            room.turn()
        assert waited == [1, 2, 3, 4, 20, 37, 53]

    def test_traffic_that_becomes_dense_is_batched_again(self) -> None:
        room = WaitingRoom(max_batch_size=64, inline=True)
        room.expect_lone_requests()
        for _ in range(3):
            room.arrive(20)
            room.turn()
        assert room.sizes[-1] == 20
        assert sum(room.sizes) == 60

    def test_a_batch_that_fills_while_one_waits_ends_the_expectation(self) -> None:
        room = WaitingRoom(max_batch_size=2, inline=True)
        room.expect_lone_requests()
        room.arrive(16)
        assert room.sizes == [1] * 15
        room.arrive()
        assert room.sizes == [1] * 15 + [2]
        room.arrive()
        assert room.sizes == [1] * 15 + [2]

    def test_what_comes_while_one_is_released_goes_after_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        room = WaitingRoom(inline=True)
        room.expect_lone_requests()
        before, release = len(room.sizes), room.batcher._release
        followers = [arriving(rows=rows) for rows in (2, 3)]

        def release_while_others_come(batch: Batch) -> None:
            while followers:
                room.batcher.enqueue(followers.pop(0))
            release(batch)

        monkeypatch.setattr(room.batcher, "_release", release_while_others_come)
        room.arrive()
        assert room.sizes[before:] == [1, 5]

    def test_one_that_finds_no_room_beside_those_that_execute_waits(self) -> None:
        room = WaitingRoom(instances=2, max_concurrency=1)
        room.expect_lone_requests()
        while room.running:
            room.free()
        before = len(room.sizes)
        room.arrive(2)
        assert room.sizes[before:] == [1]
        room.free()
        assert room.sizes[before:] == [1, 1]


class TestDelay:
    def test_the_window_counts_from_the_oldest_request_and_not_from_the_last(self) -> None:
        """SeldonIO/MLServer#1936: the window shrank with each arrival."""
        room = WaitingRoom(max_batch_size=100, delay_ms=1_000)
        for _ in range(10):
            room.arrive()
            room.advance_ms(50)
        assert room.released == []
        room.advance_ms(2_000)
        (release,) = room.released
        assert (release.rows, release.at_ms, release.reason) == (10, 1_000, DELAY)

    def test_it_holds_for_lone_requests_too(self) -> None:
        room = WaitingRoom(delay_ms=20, inline=True)
        for _ in range(20):
            room.arrive()
            room.advance_ms(100)
        assert [release.at_ms for release in room.released] == [100 * number + 20 for number in range(20)]

    def test_a_full_batch_does_not_wait(self) -> None:
        room = WaitingRoom(max_batch_size=4, delay_ms=1_000)
        room.arrive(4)
        assert room.sizes == [4]
        assert room.reasons == [FULL]

    def test_a_window_that_ends_while_instances_are_busy_ends_with_the_first_free_one(self) -> None:
        room = WaitingRoom(max_batch_size=4, delay_ms=100)
        room.arrive(4)
        room.arrive(2)
        room.advance_ms(500)
        assert room.sizes == [4]
        room.free()
        assert room.sizes == [4, 2]
        assert room.reasons[1] is DELAY

    def test_a_freed_instance_waits_for_the_rest_of_the_window(self) -> None:
        room = WaitingRoom(max_batch_size=4, delay_ms=100)
        room.arrive(4)
        room.arrive(2)
        room.advance_ms(30)
        room.free()
        assert room.sizes == [4]
        room.advance_ms(100)
        assert [release.at_ms for release in room.released] == [0, 100]

    def test_when_the_oldest_leaves_the_queue_the_next_one_s_window_holds(self) -> None:
        room = WaitingRoom(delay_ms=100)
        (first,) = room.arrive()
        room.advance_ms(60)
        room.arrive()
        room.batcher.withdraw(first)
        room.advance_ms(500)
        assert [release.at_ms for release in room.released] == [160]

    def test_the_second_window_of_a_bucket_is_as_long_as_the_first(self) -> None:
        room = WaitingRoom(delay_ms=100, inline=True)
        room.arrive(2)
        room.advance_ms(250)
        room.arrive(3)
        room.advance_ms(250)
        assert [(release.at_ms, release.rows) for release in room.released] == [(100, 2), (350, 3)]

    def test_each_bucket_has_a_window_of_its_own(self) -> None:
        room = WaitingRoom(delay_ms=100, inline=True)
        room.arrive(key="short")
        room.advance_ms(40)
        room.arrive(2, key="long")
        room.advance_ms(500)
        assert [(release.at_ms, release.rows) for release in room.released] == [(100, 1), (140, 2)]

    def test_a_full_bucket_does_not_wait_behind_an_older_one(self) -> None:
        room = WaitingRoom(max_batch_size=4, delay_ms=100)
        room.arrive(key="short")
        room.advance_ms(10)
        full = room.arrive(4, key="long")
        assert [release.requests for release in room.released] == [full]

    def test_a_model_without_batches_has_nothing_to_wait_for(self) -> None:
        room = WaitingRoom(max_batch_size=1, delay_ms=100)
        room.arrive()
        assert room.sizes == [1]


class TestPreferredSizes:
    def test_a_preferred_size_does_not_wait_and_the_rest_does(self) -> None:
        room = WaitingRoom(max_batch_size=16, preferred=(4, 8), delay_ms=100)
        room.arrive(3)
        room.turn()
        assert room.released == []
        room.arrive(2)
        room.turn()
        assert [(release.rows, release.reason) for release in room.released] == [(4, PREFERRED)]
        room.free()
        room.advance_ms(100)
        assert [(release.rows, release.reason) for release in room.released[1:]] == [(1, DELAY)]

    def test_the_largest_that_is_there_is_taken(self) -> None:
        room = WaitingRoom(max_batch_size=16, preferred=(4, 8), delay_ms=100)
        room.arrive(9)
        room.turn()
        assert room.sizes == [8]

    def test_rows_that_do_not_make_a_preferred_size_exactly_wait(self) -> None:
        room = WaitingRoom(max_batch_size=16, preferred=(4,), delay_ms=100)
        room.arrive(2, rows=3)
        room.turn()
        assert room.released == []
        room.advance_ms(100)
        assert [(release.rows, release.reason) for release in room.released] == [(6, DELAY)]

    def test_without_a_delay_nothing_is_held_back_for_a_preferred_size(self) -> None:
        room = WaitingRoom(max_batch_size=16, preferred=(4,))
        room.arrive(6)
        room.turn()
        assert room.sizes == [6]


class TestWide:
    """A batch may have all CPUs that has the model to itself."""

    def test_a_lone_request_to_an_idle_model(self) -> None:
        room = WaitingRoom(instances=2, wide_rows=8)
        room.arrive()
        room.turn()
        room.free()
        room.arrive(rows=5)
        room.turn()
        assert (room.sizes, room.widths) == ([1, 5], [True, True])

    def test_not_while_another_executes_and_again_when_it_has_ended(self) -> None:
        room = WaitingRoom(instances=2, wide_rows=8)
        for _ in range(2):
            room.arrive()
            room.turn()
        assert room.widths == [True, False]
        room.free()
        room.arrive()
        room.turn()
        room.free()
        room.free()
        room.arrive()
        room.turn()
        assert room.widths == [True, False, False, True]

    def test_what_waits_together_is_spread_and_narrow(self) -> None:
        room = WaitingRoom(instances=2, wide_rows=8)
        room.arrive(6)
        room.turn()
        assert (room.sizes, room.widths) == ([3, 3], [False, False])

    def test_not_with_others_behind_it(self) -> None:
        room = WaitingRoom(instances=2, wide_rows=8)
        room.arrive(key="a")
        room.arrive(key="b")
        room.turn()
        assert room.widths == [False, False]

    def test_not_when_it_has_more_rows_than_pay(self) -> None:
        room = WaitingRoom(instances=2, wide_rows=4)
        room.arrive(rows=5)
        room.turn()
        room.free()
        room.arrive(rows=4)
        room.turn()
        assert room.widths == [False, True]

    def test_under_load_from_a_closed_loop_of_many_all_are_narrow(self) -> None:
        room = WaitingRoom(instances=2, wide_rows=8)
        room.arrive(8)
        for _ in range(20):
            room.turn()
            room.arrive(len(room.running[0].requests))
            room.free()
        assert set(room.widths) == {False}

    def test_of_one_due_by_a_delay_too(self) -> None:
        room = WaitingRoom(instances=2, wide_rows=8, delay_ms=5)
        room.arrive(3)
        room.advance_ms(5)
        assert (room.sizes, room.widths) == ([3], [True])

    def test_never_where_it_does_not_pay(self) -> None:
        room = WaitingRoom(instances=2)
        room.arrive()
        room.turn()
        assert room.widths == [False]


class TestInstances:
    @pytest.mark.parametrize(
        ("instances", "arrivals", "sizes"),
        [(2, 6, [3, 3]), (2, 7, [4, 3]), (3, 7, [3, 2, 2]), (4, 2, [1, 1]), (2, 1, [1]), (2, 16, [4, 4])],
    )
    def test_what_waits_is_spread_over_the_idle_ones(self, instances: int, arrivals: int, sizes: list[int]) -> None:
        room = WaitingRoom(max_batch_size=8, instances=instances)
        room.arrive(arrivals)
        room.turn()
        assert room.sizes == sizes

    def test_one_instance_never_gets_a_second_batch_while_it_is_busy(self) -> None:
        room = WaitingRoom(max_batch_size=2, instances=2)
        room.arrive(20)
        assert len(room.running) == 2
        for _ in range(8):
            room.free()
            assert len(room.running) == 2

    def test_no_more_than_max_concurrency_requests_execute(self) -> None:
        room = WaitingRoom(max_batch_size=4, instances=3, max_concurrency=5)
        room.arrive(20)
        room.turn()
        executing = []
        while room.running:
            executing.append(sum(len(batch.requests) for batch in room.running))
            room.free()
        assert max(executing) == 5
        assert sum(len(release.requests) for release in room.released) == 20

    def test_a_release_that_finishes_at_once_does_not_release_within_itself(self) -> None:
        room = WaitingRoom(max_batch_size=1, inline=True)
        room.arrive(2_000)
        assert len(room.released) == 2_000


class TestBuckets:
    def test_requests_with_different_keys_never_share_a_batch(self) -> None:
        room = WaitingRoom(inline=True)
        for key in ("a", "b", "a", "c", "b"):
            room.arrive(key=key)
        room.turn()
        keys = [[request.batch_key for request in release.requests] for release in room.released]
        assert keys == [["a", "a"], ["b", "b"], ["c"]]
        assert room.reasons == [SHAPE, SHAPE, IDLE]

    def test_the_bucket_whose_head_is_oldest_goes_first_so_that_none_starves(self) -> None:
        room = WaitingRoom(max_batch_size=2)
        room.arrive(2, key="popular")
        for number in range(3):
            room.advance_ms(1)
            room.arrive(2, key="popular")
            if number == 0:
                room.advance_ms(1)
                room.arrive(key="rare")
        while room.running:
            room.free()
        order = [release.requests[0].batch_key for release in room.released]
        assert order == ["popular", "popular", "rare", "popular", "popular"]

    def test_a_request_that_was_withdrawn_never_leaves(self) -> None:
        room = WaitingRoom()
        first, second, third = room.arrive(3)
        room.batcher.withdraw(second)
        room.turn()
        assert [release.requests for release in room.released] == [[first, third]]

    def test_a_turn_whose_requests_were_all_withdrawn_releases_nothing(self) -> None:
        room = WaitingRoom()
        for request in room.arrive(2):
            room.batcher.withdraw(request)
        room.turn()
        assert room.released == []
        room.arrive()
        room.turn()
        assert room.sizes == [1]


class TestBounds:
    @pytest.mark.parametrize(
        "bounds",
        [
            {"max_batch_size": 0},
            {"max_batch_size": 1},
            {"max_batch_size": 8, "max_concurrency": 1},
            {"max_batch_size": 8, "max_concurrency": 1, "instances": 4},
        ],
    )
    @pytest.mark.parametrize("lone", [False, True])
    def test_one_executes_and_four_wait(self, bounds: dict[str, Any], lone: bool) -> None:
        """ray-project/ray#34280: overload queued without bound. Concurrency 1, queue 4, 20 at once: 5 accepted."""
        room = WaitingRoom(max_queue_size=4, **bounds)
        if lone:
            room.expect_lone_requests()
        assert room.accepted_of(20) == 5
        room.turn()
        assert room.batcher.queue.count == 4
        assert room.accepted_of(20) == 0
        room.free()
        assert room.accepted_of(20) == 1
        while room.running:
            room.free()
        assert sum(room.sizes) == 6

    def test_a_turn_may_bring_what_idle_instances_take_beside_what_may_wait(self) -> None:
        room = WaitingRoom(max_batch_size=8, max_queue_size=4)
        assert room.accepted_of(40) == 12
        room.turn()
        assert room.sizes == [8]
        assert room.batcher.queue.count == 4

    def test_a_busy_model_takes_in_exactly_what_may_wait(self) -> None:
        room = WaitingRoom(max_batch_size=8, max_queue_size=4)
        room.arrive(8)
        assert room.accepted_of(40) == 4

    def test_a_refused_request_leaves_no_trace(self) -> None:
        room = WaitingRoom(max_batch_size=1, max_queue_size=1)
        room.arrive(2)
        with pytest.raises(QueueFull, match=r"the queue is full \(1 requests wait\); try again later"):
            room.arrive()
        assert (room.batcher.queue.count, room.batcher.queue.rows) == (1, 1)

    def test_the_predicted_wait_follows_the_time_per_row(self) -> None:
        room = WaitingRoom(max_batch_size=1, max_queue_size=10, instances=2)
        for _ in range(60):
            room.arrive()
            room.turn()
            room.free(busy_ms=100)
        room.arrive(12)
        with pytest.raises(QueueFull) as refusal:
            room.arrive()
        assert refusal.value.retry_after_ms == pytest.approx(10 * 100 / 2, rel=0.01)

    def test_without_experience_the_predicted_wait_is_the_least(self) -> None:
        assert WaitingRoom().batcher.predicted_wait_ms() == 1

    def test_the_parts_of_a_large_request_are_admitted_together(self) -> None:
        room = WaitingRoom(max_batch_size=8, max_queue_size=4)
        whole = arriving(rows=100)
        room.batcher.enqueue(whole, split(whole, 8, whole.sender.fail))
        assert whole.state is RequestState.PENDING
        while room.running:
            room.free()
        assert room.sizes == [8] * 12 + [4]
        assert [part.whole for release in room.released for part in release.requests] == [whole] * 13
