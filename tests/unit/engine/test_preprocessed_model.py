"""Requests that pass steps before they wait for a batch."""

import asyncio
import logging
from collections.abc import Callable
from threading import Event
from typing import Any

import numpy as np
import pytest

from guepard.core.errors import (
    DeadlineExceeded,
    InputError,
    InternalError,
    ModelError,
    NotReady,
    QueueFull,
)
from guepard.core.model_config import MILLISECOND, SECOND, DynamicBatching
from guepard.core.reasons import FailureReason
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.tensor import Array, TensorSpec
from guepard.engine import preprocessed_model
from guepard.engine.preprocessed_model import PreprocessedModel
from guepard.telemetry.request_trace import UNBOUNDED, TracePlan
from tests.unit.batching.arrivals import RecordedSender
from tests.unit.engine.fake_steps import before
from tests.unit.engine.stage import Stage

_PATIENCE_S = 10.0


class Gate:
    """A step that adds 100, once it may."""

    def __init__(self) -> None:
        self.runs = 0
        self.entered = Event()
        self.may_leave = Event()

    def __call__(self, array: Array) -> Array:
        self.runs += 1
        self.entered.set()
        assert self.may_leave.wait(_PATIENCE_S)
        return np.asarray(array + 100)


def opened() -> Gate:
    gate = Gate()
    gate.may_leave.set()
    return gate


def stage(call: Callable[[Array], Array], **options: Any) -> Stage:
    return Stage(hooks=before(call), **options)


def answer(on: Stage, request: InferenceRequest) -> RecordedSender:
    sender = request.sender
    assert isinstance(sender, RecordedSender)
    on.deliver_until(lambda: bool(sender.ends))
    return sender


def preparing(on: Stage) -> int:
    assert isinstance(on.served, PreprocessedModel)
    return on.served.queue_depth


class TestTheWay:
    @pytest.mark.parametrize("execution", ["inline", "thread"])
    def test_leads_through_the_steps_to_the_model(self, execution: str) -> None:
        on = stage(opened(), execution=execution)
        request = on.send(1, 2)
        assert request.state is RequestState.PENDING
        assert answer(on, request).values == [202, 204]
        assert on.executor.runs == [[101, 102]]
        assert request.is_released
        assert on.successes == 1

    def test_what_callers_send_is_checked_before(self) -> None:
        on = Stage(hooks=before(opened(), datatype="INT32"), inputs=(TensorSpec("x", "INT32", [1]),))
        request = on.send(1)
        assert isinstance(request.sender, RecordedSender)
        assert isinstance(request.sender.error, InputError)
        assert "expected datatype INT32, got FP32" in request.sender.error.message
        assert on.failures() == {FailureReason.INVALID: 1}
        assert not preparing(on)

    def test_preprocessing_counts_as_decoding(self) -> None:
        gate = Gate()
        on = stage(gate)
        request = on.send(1)
        assert gate.entered.wait(_PATIENCE_S)
        on.clock.advance(50 * MILLISECOND)
        gate.may_leave.set()
        answer(on, request)
        assert request.queue_start - request.request_start == 50 * MILLISECOND
        assert on.served.statistics.read().phases["decode"].total == 50 * MILLISECOND

    def test_requests_share_batches_behind_it(self) -> None:
        gate = Gate()
        on = stage(gate, threads=4, execution="inline")
        requests = [on.send(value) for value in range(4)]
        gate.may_leave.set()
        for _ in requests:
            on.deliver()
        on.clock.turn()
        assert sorted(map(len, on.executor.runs), reverse=True)[0] > 1
        assert [request.sender.values for request in requests] == [[200], [202], [204], [206]]  # type: ignore[attr-defined]

    def test_a_large_request_is_split_behind_it(self) -> None:
        gate = opened()
        on = stage(gate)
        request = on.send(*range(20))
        assert answer(on, request).values == [2.0 * (100 + value) for value in range(20)]
        assert gate.runs == 1
        assert [len(run) for run in on.executor.runs] == [8, 8, 4]

    def test_one_that_is_too_large_for_that_is_refused_before(self) -> None:
        gate = opened()
        on = stage(gate, max_batch_size=1)
        request = on.send(*range(1_025))
        assert isinstance(request.sender, RecordedSender)
        assert "1025 rows are too many" in str(request.sender.error)
        assert not gate.runs

    def test_no_rows(self) -> None:
        on = stage(opened())
        assert answer(on, on.send()).values == []

    def test_each_run_is_timed(self) -> None:
        on = stage(opened())
        answer(on, on.send(1))
        assert on.served.statistics.read().steps["call"].count == 1


class TestFaults:
    def test_bad_input_is_the_callers_fault(self) -> None:
        def refuse(array: Array) -> Array:
            raise InputError("input 'x': image 1 is empty", row=1)

        on = stage(refuse)
        error = answer(on, on.send(1)).error
        assert isinstance(error, InputError)
        assert error.message == "input 'x': image 1 is empty"
        assert on.failures() == {FailureReason.INVALID: 1}
        assert not on.executor.runs
        assert on.served.statistics.read().steps["call"].count == 0

    @pytest.mark.parametrize("raised", [ValueError("secret"), SystemExit(), MemoryError()])
    def test_any_other_failure_is_the_servers(self, raised: BaseException, caplog: pytest.LogCaptureFixture) -> None:
        def fail(array: Array) -> Array:
            raise raised

        on = stage(fail)
        with caplog.at_level(logging.ERROR):
            error = answer(on, on.send(1)).error
        assert isinstance(error, ModelError)
        assert error.message == f"model 'm' failed: {type(raised).__name__}"
        assert on.failures() == {FailureReason.BACKEND: 1}

    def test_what_the_steps_make_is_checked_against_the_model(self) -> None:
        on = stage(lambda array: np.zeros((len(array), 2), np.float32))
        error = answer(on, on.send(1)).error
        assert isinstance(error, InputError)
        assert "input 'x': expected shape [-1, 1]" in error.message

    def test_and_so_are_their_rows(self) -> None:
        on = stage(lambda array: array[:1])
        error = answer(on, on.send(1, 2)).error
        assert isinstance(error, InternalError)
        assert error.message == "preprocessing made 1 rows out of 2"

    def test_failures_are_traced(self, caplog: pytest.LogCaptureFixture) -> None:
        def refuse(array: Array) -> Array:
            raise InputError("no")

        on = stage(refuse)
        on.trace.begin(TracePlan(is_on=True, rate=1, limit=UNBOUNDED))
        with caplog.at_level(logging.INFO, "guepard.trace"):
            answer(on, on.send(1))
        (record,) = [record for record in caplog.records if record.name == "guepard.trace"]
        assert not hasattr(record, "queue_start")
        assert record.outcome == "failure"  # type: ignore[attr-defined]


class TestDeadlines:
    def test_one_that_passes_while_a_step_runs(self) -> None:
        gate = Gate()
        on = stage(gate)
        request = on.send(1, timeout_ns=SECOND)
        assert gate.entered.wait(_PATIENCE_S)
        on.clock.advance(SECOND)
        assert isinstance(request.sender, RecordedSender)
        assert isinstance(request.sender.error, DeadlineExceeded)
        assert request.sender.error.message == "the deadline passed while its inputs were preprocessed"
        gate.may_leave.set()
        on.deliver()  # what the step made comes too late for anybody
        assert not on.executor.runs
        assert on.failures() == {FailureReason.TIMEOUT: 1}

    def test_one_that_passes_while_it_waits_for_its_steps(self) -> None:
        gate = Gate()
        on = stage(gate, threads=1)
        on.send(1)
        late = on.send(2, timeout_ns=SECOND)
        on.clock.advance(SECOND)
        assert isinstance(late.sender, RecordedSender)
        assert isinstance(late.sender.error, DeadlineExceeded)
        gate.may_leave.set()
        on.deliver()
        assert gate.runs == 1

    def test_one_that_passes_behind_the_steps(self) -> None:
        on = stage(opened(), dynamic_batching=DynamicBatching(max_queue_delay_ns=5 * SECOND))
        request = on.send(1, timeout_ns=SECOND)
        on.deliver()
        on.clock.advance(SECOND)
        assert isinstance(request.sender, RecordedSender)
        assert request.sender.error is not None
        assert request.sender.error.message == "the deadline passed while waiting"


class TestCancellation:
    def test_before_the_steps_costs_nothing(self) -> None:
        gate = Gate()
        on = stage(gate, threads=1)
        first, second = on.send(1), on.send(2)
        assert gate.entered.wait(_PATIENCE_S)
        on.served.cancel(second)
        gate.may_leave.set()
        answer(on, first)
        assert gate.runs == 1
        assert on.executor.runs == [[101]]
        assert on.failures() == {FailureReason.CANCELED: 1}

    def test_during_the_steps_costs_no_execution(self) -> None:
        gate = Gate()
        on = stage(gate)
        request = on.send(1)
        assert gate.entered.wait(_PATIENCE_S)
        on.served.cancel(request)
        on.served.cancel(request)
        gate.may_leave.set()
        on.deliver()
        assert not on.executor.runs
        assert isinstance(request.sender, RecordedSender)
        assert not request.sender.ends
        assert on.failures() == {FailureReason.CANCELED: 1}
        assert not preparing(on)

    def test_behind_them_takes_the_request_out_of_the_queue(self) -> None:
        on = stage(opened(), dynamic_batching=DynamicBatching(max_queue_delay_ns=5 * SECOND))
        request = on.send(1)
        on.deliver()
        assert preparing(on) == 1
        on.served.cancel(request)
        assert preparing(on) == 0

    def test_one_that_nobody_wants_is_not_begun(self) -> None:
        """Cancelled between the moment that a thread took it and its first step."""
        gate = opened()
        on = stage(gate)
        assert isinstance(on.served, PreprocessedModel)
        request = on.send(1)
        answer(on, request)
        preparation = preprocessed_model._Preparation(on.served, request)
        preparation.run()
        assert gate.runs == 1


class TestBounds:
    def test_those_that_are_preprocessed_count_as_waiting(self) -> None:
        gate = Gate()
        on = stage(gate, dynamic_batching=DynamicBatching(max_queue_size=3))
        requests = [on.send(value) for value in range(3)]
        assert preparing(on) == 3
        refused = on.send(9)
        assert isinstance(refused.sender, RecordedSender)
        assert isinstance(refused.sender.error, QueueFull)
        assert refused.sender.error.retry_after_ms
        gate.may_leave.set()
        for request in requests:
            assert answer(on, request).values
        assert answer(on, on.send(1)).values == [202]

    def test_nothing_is_made_far_ahead_of_the_executions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two batches for each instance, and beyond only as many bytes as may be."""
        monkeypatch.setattr(preprocessed_model, "_READY_BYTES", 100)
        gate = opened()
        held = Event()

        def slow(array: Array) -> Array:
            assert held.wait(_PATIENCE_S)
            return array

        on = Stage(slow, hooks=before(gate), threads=1, max_batch_size=4)
        requests = [on.send(value) for value in range(60)]
        assert isinstance(on.served, PreprocessedModel)
        on.deliver_until(lambda: on.served._lane.is_paused)  # type: ignore[attr-defined]
        assert gate.runs < 40
        assert preparing(on) >= 50
        held.set()
        for value, request in enumerate(requests):
            assert answer(on, request).values == [100 + value]
        assert not on.served._lane.is_paused

    def test_requests_that_leave_let_others_go_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preprocessed_model, "_READY_BYTES", 0)
        on = stage(opened(), max_batch_size=2, dynamic_batching=DynamicBatching(max_queue_delay_ns=5 * SECOND))
        assert isinstance(on.served, PreprocessedModel)
        on.served._ready_rows = 0
        request = on.send(1)
        on.deliver()
        assert on.served._lane.is_paused
        on.served.cancel(request)
        assert not on.served._lane.is_paused


class TestTheEnd:
    def test_a_drain_waits_for_them(self) -> None:
        gate = Gate()
        on = stage(gate)
        request = on.send(1)
        assert not asyncio.run(on.served.drain(0.0))
        gate.may_leave.set()
        answer(on, request)
        assert asyncio.run(on.served.drain(0.0))

    def test_closing_answers_those_that_are_left(self) -> None:
        gate = Gate()
        on = stage(gate, threads=1)
        requests = [on.send(1), on.send(2)]
        assert gate.entered.wait(_PATIENCE_S)
        asyncio.run(on.served.close())
        for request in requests:
            assert isinstance(request.sender, RecordedSender)
            assert isinstance(request.sender.error, NotReady)
        gate.may_leave.set()
        on.deliver()
        assert gate.runs == 1
        refused = on.send(3)
        assert isinstance(refused.sender, RecordedSender)
        assert isinstance(refused.sender.error, NotReady)
