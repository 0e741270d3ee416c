"""Whatever arrives, leaves, finishes or gives up in whatever order: nothing is lost, nothing leaves twice, no bound
is passed, and no request overtakes one that it could have shared a batch with."""

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from guepard.batching.deadline_watch import DeadlineWatch
from guepard.core.errors import QueueFull
from guepard.core.model_config import MILLISECOND
from guepard.core.request import InferenceRequest, RequestState
from tests.unit.batching.arrivals import arriving
from tests.unit.batching.waiting_room import WaitingRoom


class BatcherMachine(RuleBasedStateMachine):
    """A waiting room and what a careful clerk would write down beside it."""

    @initialize(
        max_batch_size=st.sampled_from([0, 1, 3, 8]),
        instances=st.integers(1, 3),
        max_concurrency=st.sampled_from([1, 2, 5, 1_000]),
        delay_ms=st.sampled_from([0, 0, 10]),
        preferred=st.sampled_from([(), (2,), (2, 6)]),
        max_queue_size=st.integers(1, 12),
        wide_rows=st.sampled_from([0, 1, 4]),
    )
    def open(
        self,
        max_batch_size: int,
        instances: int,
        max_concurrency: int,
        delay_ms: int,
        preferred: tuple[int, ...],
        max_queue_size: int,
        wide_rows: int,
    ) -> None:
        self.room = WaitingRoom(
            max_batch_size=max_batch_size,
            instances=instances,
            max_concurrency=max_concurrency,
            delay_ms=delay_ms,
            preferred=preferred,
            max_queue_size=max_queue_size,
            wide_rows=wide_rows,
        )
        self.wide_rows = wide_rows
        self.limit = max(1, max_batch_size)
        self.instances = instances
        self.max_concurrency = max_concurrency
        self.max_queue_size = max_queue_size
        self.delay_ms = delay_ms
        self.accepted: list[InferenceRequest] = []
        self.left: set[InferenceRequest] = set()
        self.watch = DeadlineWatch(self.room.clock, lambda: self.room.batcher.queue, self._give_up)

    def _give_up(self, request: InferenceRequest) -> None:
        assert request not in self.left, "gave up twice"
        self.room.batcher.withdraw(request)
        request.state = RequestState.RELEASED
        self.left.add(request)

    @rule(
        rows=st.lists(st.integers(0, 9), min_size=1, max_size=6),
        key=st.sampled_from("aab"),
        timeout_ms=st.sampled_from([5, 30, 1_000_000]),
    )
    def arrive(self, rows: list[int], key: str, timeout_ms: int) -> None:
        for count in rows:
            request = arriving(min(count, self.limit), key=key)
            request.deadline = self.room.clock.now() + timeout_ms * MILLISECOND
            waiting = self.room.batcher.queue.count
            try:
                self.room.batcher.enqueue(request)
            except QueueFull:
                assert waiting >= self.max_queue_size
            else:
                self.accepted.append(request)
                self.watch.watch(request.deadline)

    @rule()
    def turn(self) -> None:
        self.room.turn()

    @rule(duration_ms=st.sampled_from([1, 4, 10, 40]))
    def advance(self, duration_ms: int) -> None:
        self.room.advance_ms(duration_ms)

    @rule(busy_ms=st.integers(0, 50))
    def finish(self, busy_ms: int) -> None:
        if self.room.running:
            self.room.free(busy_ms)

    @rule(choice=st.integers(0, 20))
    def withdraw(self, choice: int) -> None:
        waiting = list(self.room.batcher.queue)
        if waiting:
            self._give_up(waiting[choice % len(waiting)])

    @invariant()
    def every_request_is_in_one_place(self) -> None:
        released = [request for release in self.room.released for request in release.requests]
        waiting = list(self.room.batcher.queue)
        assert len(released) == len(set(released)), "left twice"
        assert sorted(map(id, [*released, *waiting, *self.left])) == sorted(map(id, self.accepted))

    @invariant()
    def counts_agree(self) -> None:
        queue = self.room.batcher.queue
        assert queue.count == len(list(queue))
        assert queue.rows == sum(request.rows for request in queue)

    @invariant()
    def bounds_hold(self) -> None:
        running = self.room.running
        assert len(running) + self.room.batcher.idle == self.instances
        assert sum(len(batch.requests) for batch in running) <= self.max_concurrency
        assert self.room.batcher.queue.count <= self.max_queue_size + self.limit * self.instances
        for release in self.room.released:
            assert release.requests
            assert release.rows == sum(request.rows for request in release.requests) <= self.limit
            assert len({request.batch_key for request in release.requests}) == 1

    @invariant()
    def a_wide_batch_had_the_model_to_itself(self) -> None:
        assert sum(batch.wide for batch in self.room.running) <= 1
        assert not any(batch.wide for batch in self.room.running[1:]), "others ran when it was released"
        assert all(release.rows <= self.wide_rows for release in self.room.released if release.batch.wide)

    @invariant()
    def nobody_overtakes_within_a_bucket(self) -> None:
        ages = {request: age for age, request in enumerate(self.accepted)}
        order = defaultdict(list)
        for release in self.room.released:
            for request in release.requests:
                order[request.batch_key].append(ages[request])
        assert all(bucket == sorted(bucket) for bucket in order.values())

    def teardown(self) -> None:
        """Everything that still waits leaves in the end, by itself."""
        if not hasattr(self, "room"):
            return
        for _ in range(2 * len(self.accepted) + 2):
            self.room.advance_ms(self.delay_ms)
            if self.room.running:
                self.room.free()
        assert self.room.running == []
        assert self.room.batcher.queue.count == 0
        assert self.room.clock.armed <= 1  # the watch may look once more
        self.every_request_is_in_one_place()


def test_nothing_is_lost_and_no_bound_is_passed() -> None:
    run_state_machine_as_test(
        BatcherMachine, settings=settings(max_examples=150, stateful_step_count=30, deadline=None)
    )
