"""Exactly one final answer each, the right one, whatever happens to the batch, the clock or the caller."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from guepard.core.errors import DeadlineExceeded, InputError, ModelError, NotReady, QueueFull, Unsupported
from guepard.core.model_config import MILLISECOND, SECOND, DynamicBatching, TimeoutPolicy
from guepard.core.reasons import FailureReason
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.tensor import TensorSpec
from tests.unit.batching.arrivals import RecordedSender, sender_of
from tests.unit.engine.fake_executors import fail_negative
from tests.unit.engine.stage import Stage


class Gate:
    """A function for an executor that waits inside its first run until the test opens the gate."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, array: Any) -> Any:
        self.entered.set()
        assert self.opened.wait(10)
        return fail_negative(array)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def busy(gate: Gate) -> Stage:
    """A stage whose only instance is held inside the run of one request."""
    stage = Stage(gate, max_batch_size=4)
    stage.send(1)
    stage.clock.turn()
    assert gate.entered.wait(10)
    return stage


def error_of(request: InferenceRequest) -> Exception | None:
    assert sender_of(request).ends == 1
    return sender_of(request).error


class TestAnswers:
    def test_each_caller_gets_its_own_rows(self) -> None:
        stage = Stage(execution="inline")
        requests = [stage.send(*values) for values in ([1], [2, 3], [4, 5, 6])]
        stage.clock.turn()
        assert [sender_of(request).values for request in requests] == [[2], [4, 6], [8, 10, 12]]
        assert stage.executor.runs == [[1, 2, 3, 4, 5, 6]]
        assert all(request.is_released for request in requests)
        assert stage.successes == 3

    def test_an_input_that_does_not_fit_is_refused_and_counted(self) -> None:
        stage = Stage(execution="inline", inputs=(TensorSpec("x", "FP32", [2]),))
        request = stage.send(1)
        assert isinstance(error_of(request), InputError)
        assert request.state is RequestState.FAILED_ENQUEUE
        assert stage.failures() == {FailureReason.INVALID: 1}

    def test_a_request_that_breaks_the_model_fails_alone(self) -> None:
        stage = Stage(fail_negative, execution="inline")
        requests = [stage.send(value) for value in (1, -2, 3)]
        stage.clock.turn()
        assert isinstance(error_of(requests[1]), ModelError)
        assert [sender_of(requests[index]).values for index in (0, 2)] == [[2], [6]]
        assert (stage.successes, stage.failures()) == (2, {FailureReason.BACKEND: 1})

    def test_a_full_queue_refuses(self, gate: Gate) -> None:
        stage = Stage(gate, max_batch_size=1, dynamic_batching=DynamicBatching(max_queue_size=1))
        for _ in range(2):
            stage.send(1)
        assert isinstance(error_of(stage.send(1)), QueueFull)
        assert stage.failures() == {FailureReason.REJECTED: 1}

    def test_a_large_request_is_answered_as_one(self) -> None:
        stage = Stage(execution="inline", max_batch_size=4)
        request = stage.send(*range(10))
        stage.clock.turn()
        assert sender_of(request).values == [2 * value for value in range(10)]
        assert stage.executor.runs == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert stage.successes == 1
        assert stage.served.statistics.read().rows == 10

    def test_the_rest_of_a_large_request_shares_a_batch(self, busy: Stage, gate: Gate) -> None:
        large, small = busy.send(*range(5)), busy.send(70, 71)
        gate.opened.set()
        for _ in range(3):
            busy.deliver()
        assert sender_of(large).values == [0, 2, 4, 6, 8]
        assert sender_of(small).values == [140, 142]
        assert busy.executor.runs == [[1], [0, 1, 2, 3], [4, 70, 71]]
        assert busy.successes == 3

    def test_a_part_that_fails_fails_the_whole_once_and_the_rest_is_not_run(self) -> None:
        stage = Stage(fail_negative, execution="inline", max_batch_size=2)
        request = stage.send(-1, 2, 3, 4, 5)
        stage.clock.turn()
        assert isinstance(error_of(request), ModelError)
        assert (stage.successes, stage.failures()) == (0, {FailureReason.BACKEND: 1})
        assert stage.served.queue_depth == 0
        assert stage.executor.runs == [[-1, 2]]

    def test_parts_whose_answers_do_not_fit_together_fail_the_whole_and_nobody_else(self, gate: Gate) -> None:
        """A model that pads to the longest row of its batch answers parts of different widths."""
        stage = Stage(lambda array: gate(array).repeat(int(array.max()), axis=1), max_batch_size=4)
        blocker = stage.send(1)
        stage.clock.turn()
        assert gate.entered.wait(10)
        large, small = stage.send(1, 1, 1, 1, 6), stage.send(6)
        gate.opened.set()
        for _ in range(3):
            stage.deliver()
        error = error_of(large)
        assert isinstance(error, ModelError)
        assert error.message.startswith("the request was split into batches of 4 rows, whose answers differ in shape")
        assert sender_of(blocker).values == [2]
        assert sender_of(small).values == [12] * 6
        assert (stage.successes, stage.failures()) == (2, {FailureReason.BACKEND: 1})

    def test_a_request_of_too_many_batches_is_refused(self) -> None:
        stage = Stage(execution="inline", max_batch_size=2)
        largest, refused = stage.send(*range(2_048)), stage.send(*range(2_049))
        error = error_of(refused)
        assert isinstance(error, InputError)
        assert error.message == (
            "2049 rows are too many for one request: at most 1024 batches of 2; send several requests"
        )
        stage.clock.turn()
        assert sender_of(largest).values == [2 * value for value in range(2_048)]


class TestDeadlines:
    @pytest.mark.parametrize(
        ("timeout_ns", "expected_ns"), [(0, 3 * SECOND), (SECOND, SECOND), (9 * SECOND, 5 * SECOND)]
    )
    def test_the_default_the_caller_s_own_and_the_maximum(self, timeout_ns: int, expected_ns: int) -> None:
        stage = Stage(execution="inline", timeout=TimeoutPolicy(3 * SECOND, 5 * SECOND))
        request = stage.send(1, timeout_ns=timeout_ns)
        assert request.deadline - request.request_start == expected_ns

    def test_a_default_above_the_maximum_is_cut(self) -> None:
        stage = Stage(execution="inline", timeout=TimeoutPolicy(30 * SECOND, 5 * SECOND))
        request = stage.send(1)
        assert request.deadline - request.request_start == 5 * SECOND

    def test_who_waits_too_long_is_answered_while_the_other_still_runs(self, busy: Stage, gate: Gate) -> None:
        """triton-inference-server/server#7512: the time-out was looked at only when the running inference ended."""
        waiting = busy.send(2, timeout_ns=500 * MILLISECOND)
        patient = busy.send(3)
        busy.clock.advance(500 * MILLISECOND - 1)
        assert sender_of(waiting).ends == 0
        busy.clock.advance(1)
        assert str(error_of(waiting)) == "the deadline passed while waiting"
        gate.opened.set()
        busy.deliver()
        busy.deliver()
        assert sender_of(patient).values == [6]
        assert busy.executor.runs == [[1], [3]]
        assert busy.failures() == {FailureReason.TIMEOUT: 1}

    def test_who_runs_too_long_is_answered_in_time_and_its_late_result_is_dropped(self, gate: Gate) -> None:
        stage = Stage(gate)
        hasty, patient = stage.send(1, timeout_ns=100 * MILLISECOND), stage.send(2)
        stage.clock.turn()
        stage.clock.advance(100 * MILLISECOND)
        assert str(error_of(hasty)) == "the deadline passed while running"
        gate.opened.set()
        stage.deliver()
        assert sender_of(patient).values == [4]
        assert sender_of(hasty).ends == 1
        assert (stage.successes, stage.failures()) == (1, {FailureReason.TIMEOUT: 1})

    def test_a_large_request_expires_as_one(self, busy: Stage, gate: Gate) -> None:
        large = busy.send(*range(10), timeout_ns=100 * MILLISECOND)
        busy.clock.advance(100 * MILLISECOND)
        assert isinstance(error_of(large), DeadlineExceeded)
        assert busy.served.queue_depth == 0
        assert busy.failures() == {FailureReason.TIMEOUT: 1}
        gate.opened.set()
        busy.deliver()
        assert busy.executor.runs == [[1]]


class TestCancelling:
    def test_who_leaves_while_waiting_costs_no_execution(self, busy: Stage, gate: Gate) -> None:
        gone, patient = busy.send(2), busy.send(3)
        busy.served.cancel(gone)
        busy.served.cancel(gone)
        gate.opened.set()
        busy.deliver()
        busy.deliver()
        assert busy.executor.runs == [[1], [3]]
        assert sender_of(gone).ends == 0
        assert sender_of(patient).values == [6]
        assert busy.failures() == {FailureReason.CANCELED: 1}

    def test_who_leaves_while_running_does_not_disturb_the_others(self, gate: Gate) -> None:
        stage = Stage(gate)
        gone, patient = stage.send(1), stage.send(2)
        stage.clock.turn()
        stage.served.cancel(gone)
        gate.opened.set()
        stage.deliver()
        assert sender_of(gone).ends == 0
        assert sender_of(patient).values == [4]
        assert (stage.successes, stage.failures()) == (1, {FailureReason.CANCELED: 1})

    def test_a_large_request_takes_its_parts_along(self, busy: Stage, gate: Gate) -> None:
        large = busy.send(*range(10))
        busy.served.cancel(large)
        assert busy.served.queue_depth == 0
        gate.opened.set()
        busy.deliver()
        assert busy.executor.runs == [[1]]
        assert busy.failures() == {FailureReason.CANCELED: 1}

    def test_two_that_left_a_batch_that_fails_free_the_instance(self, gate: Gate) -> None:
        stage = Stage(gate)
        pair = stage.send(-1), stage.send(-2)
        stage.clock.turn()
        assert gate.entered.wait(10)
        for request in pair:
            stage.served.cancel(request)
        gate.opened.set()
        stage.deliver()
        after = stage.send(3)
        stage.clock.turn()
        stage.deliver()
        assert sender_of(after).values == [6]


class TestExecutionsForNobody:
    @pytest.fixture
    def pair(self, gate: Gate) -> tuple[Stage, InferenceRequest, InferenceRequest]:
        """Two requests that share the batch which runs."""
        stage = Stage(gate, max_batch_size=4)
        stage.executor.can_terminate = True
        first, second = stage.send(1), stage.send(2)
        stage.clock.turn()
        assert gate.entered.wait(10)
        return stage, first, second

    def test_the_last_to_leave_ends_it(self, pair: tuple[Stage, InferenceRequest, InferenceRequest]) -> None:
        stage, first, second = pair
        stage.served.cancel(first)
        assert stage.executor.terminations == 0
        stage.served.cancel(second)
        assert stage.executor.terminations == 1

    def test_so_do_deadlines(self, gate: Gate) -> None:
        stage = Stage(gate, max_batch_size=4)
        stage.send(1, timeout_ns=100 * MILLISECOND)
        stage.clock.turn()
        assert gate.entered.wait(10)
        stage.clock.advance(100 * MILLISECOND)
        assert stage.executor.terminations == 1

    def test_who_waits_for_the_instance_is_served_by_it(
        self, pair: tuple[Stage, InferenceRequest, InferenceRequest], gate: Gate
    ) -> None:
        stage, *gone = pair
        waiting = stage.send(3)
        for request in gone:
            stage.served.cancel(request)
        gate.opened.set()
        stage.deliver()
        stage.deliver()
        assert stage.executor.runs == [[1, 2], [3]]
        assert sender_of(waiting).values == [6]
        assert stage.served.statistics.read().terminations == 1
        assert stage.failures() == {FailureReason.CANCELED: 2}

    def test_who_leaves_the_queue_ends_nothing(self, busy: Stage) -> None:
        stage = busy
        stage.served.cancel(stage.send(3))
        assert stage.executor.terminations == 0

    def test_a_model_that_is_closed_does_not_run_on(self, busy: Stage, gate: Gate) -> None:
        async def close() -> None:
            closing = asyncio.ensure_future(busy.served.close())
            await asyncio.sleep(0)
            assert busy.executor.terminations == 1
            gate.opened.set()
            await closing

        asyncio.run(close())


class TestStreams:
    def test_two_streams_are_two_executions(self) -> None:
        stage = Stage(decoupled=True)
        first, second = stage.send(2), stage.send(3)
        stage.clock.turn()
        for _ in range(2 + 1 + 3 + 1):
            stage.deliver()
        assert [len(sender_of(request).responses) for request in (first, second)] == [2, 3]
        assert [sender_of(request).ends for request in (first, second)] == [1, 1]
        assert [response.outputs[0].tolist() for response in sender_of(second).responses] == [[[6]]] * 3
        assert stage.successes == 2

    def test_no_response_is_an_end_too(self) -> None:
        stage = Stage(decoupled=True)
        request = stage.send(0)
        stage.clock.turn()
        stage.deliver()
        assert error_of(request) is None
        assert sender_of(request).responses == []

    def test_who_leaves_frees_the_instance(self, gate: Gate) -> None:
        stage = Stage(gate, decoupled=True)
        gone, patient = stage.send(1_000_000), stage.send(1)
        stage.clock.turn()
        assert gate.entered.wait(10)
        stage.served.cancel(gone)
        gate.opened.set()
        while not sender_of(patient).ends:
            stage.deliver()
        assert sender_of(patient).values == [2]
        assert len(stage.executor.runs) <= 3
        assert (stage.successes, stage.failures()) == (1, {FailureReason.CANCELED: 1})

    def test_a_failure_ends_a_stream(self) -> None:
        stage = Stage(fail_negative, decoupled=True)
        stage.executor.function = lambda array: fail_negative(-array)
        request = stage.send(2)
        stage.clock.turn()
        stage.deliver()
        assert isinstance(error_of(request), ModelError)
        assert stage.failures() == {FailureReason.BACKEND: 1}

    def test_more_rows_than_a_batch_are_refused(self) -> None:
        stage = Stage(decoupled=True, max_batch_size=4)
        request = stage.send(*range(5))
        assert isinstance(error_of(request), Unsupported)


class TestTheEnd:
    def test_drain_waits_for_what_was_taken_in(self, busy: Stage, gate: Gate) -> None:
        assert asyncio.run(busy.served.drain(0)) is False
        gate.opened.set()
        busy.deliver()
        assert asyncio.run(busy.served.drain(0)) is True

    def test_after_close_nothing_is_taken_in_and_everything_is_let_go(self) -> None:
        stage = Stage()
        waiting = stage.send(1)
        asyncio.run(stage.served.close())
        assert isinstance(error_of(waiting), NotReady)
        assert isinstance(error_of(stage.send(2)), NotReady)
        assert stage.executor.closed
        assert stage.model.closed
        assert stage.clock.armed == 0

    def test_what_still_runs_is_answered_at_close_and_once_only(self, busy: Stage, gate: Gate) -> None:
        running = next(iter(busy.served._alive()))
        threading.Timer(0.05, gate.opened.set).start()
        asyncio.run(busy.served.close())
        assert isinstance(error_of(running), NotReady)
        busy.deliver()
        assert sender_of(running).ends == 1
        assert busy.model.closed

    def test_a_sender_gets_one_end(self) -> None:
        sender = RecordedSender()
        stage = Stage(execution="inline")
        request = stage.send(1)
        request.sender = sender
        stage.clock.turn()
        with pytest.raises(AssertionError, match="after the end"):
            sender.finish(request)
