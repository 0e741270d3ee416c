"""One batch on one executor: what each request gets when all goes well and when something in the batch breaks it."""

import logging
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import numpy as np
import pytest

from guepard.batching.dynamic_batcher import Batch
from guepard.core.errors import DeadlineExceeded, GuepardError, InputError, InstanceLost, ModelError
from guepard.core.model_config import DynamicBatching, ModelConfig
from guepard.core.reasons import ReleaseReason
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.tensor import TensorSpec
from guepard.engine.execution import execute, execute_stream
from guepard.memory.heap_arena import HeapArena
from guepard.memory.slab_pool import SlabPool
from tests.unit.batching.arrivals import arriving, sender_of
from tests.unit.engine.configs import model_config
from tests.unit.engine.fake_executors import FakeExecutor, fail_negative
from tests.unit.engine.stage import Stage

IDEMPOTENT = model_config(idempotent=True)
ONCE_ONLY = model_config(idempotent=False)


def batch_of(*values: float | list[float]) -> Batch:
    """A batch that executes, one request for each value, or for each list of the values of its rows."""
    requests = []
    for value in values:
        rows = value if isinstance(value, list) else [value]
        request = arriving(len(rows))
        request.arrays = (np.array(rows, np.float32).reshape(-1, 1),)
        request.state = RequestState.EXECUTING
        requests.append(request)
    return Batch(requests, sum(request.rows for request in requests), ReleaseReason.IDLE)


def run(
    batch: Batch, function: Callable[[Any], Any], config: ModelConfig = IDEMPOTENT
) -> tuple[list[GuepardError | list[float] | None], FakeExecutor]:
    """What became of each request of `batch`, None for one that got nothing, and the executor it ran on."""
    executor = FakeExecutor(function)
    fates: dict[InferenceRequest, GuepardError | list[float]] = {}
    for outcome in execute(executor, config, batch):
        start = 0
        for request in outcome.batch.requests:
            assert request not in fates, "two fates"
            if outcome.error is not None:
                fates[request] = outcome.error
            else:
                fates[request] = outcome.outputs[0][start : start + request.rows].reshape(-1).tolist()
            start += request.rows
        assert outcome.batch.rows == sum(request.rows for request in outcome.batch.requests)
        stamps = outcome.stamps
        assert 0 < stamps.compute_start <= stamps.compute_end
    return [fates.get(request) for request in batch.requests], executor


def refuse_row(row: int | None) -> Callable[[Any], Any]:
    def function(array: Any) -> Any:
        if (array < 0).any():
            raise InputError("a negative row", row=int(np.argmax(array < 0)) if row is None else row)
        return array * 2

    return function


class TestTogether:
    def test_all_run_at_once(self) -> None:
        fates, executor = run(batch_of(1, [2, 3], 4), lambda array: array * 2)
        assert fates == [[2], [4, 6], [8]]
        assert executor.runs == [[1, 2, 3, 4]]

    def test_the_stamps_are_in_order(self) -> None:
        before = monotonic_ns()
        (outcome,) = execute(FakeExecutor(), IDEMPOTENT, batch_of(1, 2))
        stamps = outcome.stamps
        moments = [
            before,
            stamps.compute_start,
            stamps.compute_input_end,
            stamps.compute_output_start,
            stamps.compute_end,
            monotonic_ns(),
        ]
        assert moments == sorted(moments)


class TestIsolation:
    @pytest.mark.parametrize("bad", range(8))
    def test_only_the_request_at_fault_fails(self, bad: int) -> None:
        values = [float(value) for value in range(1, 9)]
        values[bad] *= -1
        fates, executor = run(batch_of(*values), fail_negative)
        for index, fate in enumerate(fates):
            if index == bad:
                assert isinstance(fate, ModelError)
            else:
                assert fate == [2 * values[index]]
        assert len(executor.runs) == 7  # 8, 4 + 4, 2 + 2, 1 + 1

    def test_several_at_fault_fail_alone_too(self) -> None:
        fates, _ = run(batch_of(-1, 2, 3, -4, -5), fail_negative)
        assert [fate if isinstance(fate, list) else type(fate) for fate in fates] == [
            ModelError,
            [4],
            [6],
            ModelError,
            ModelError,
        ]

    def test_a_refusal_that_names_its_row_needs_one_more_run_only(self) -> None:
        fates, executor = run(batch_of([1, 2], [3, -4, 5], 6, 7), refuse_row(None))
        assert isinstance(fates[1], InputError)
        assert [fates[0], fates[2], fates[3]] == [[2, 4], [12], [14]]
        assert executor.runs == [[1, 2, 3, -4, 5, 6, 7], [1, 2, 6, 7]]

    def test_two_refusals_one_after_the_other(self) -> None:
        fates, executor = run(batch_of(-1, 2, -3), refuse_row(None))
        assert isinstance(fates[0], InputError)
        assert fates[1] == [4]
        assert isinstance(fates[2], InputError)
        assert executor.runs == [[-1, 2, -3], [2, -3], [2]]

    @pytest.mark.parametrize("row", [-1, 4, 99])
    def test_a_row_that_the_batch_does_not_have_is_searched_for(self, row: int) -> None:
        fates, _ = run(batch_of(1, 2, -3, 4), refuse_row(row))
        assert isinstance(fates[2], InputError)
        assert [*fates[:2], fates[3]] == [[2], [4], [8]]

    def test_an_output_of_the_wrong_number_of_rows_is_the_model_s_fault(self) -> None:
        fates, _ = run(batch_of(1, 2), lambda array: array[:1])
        # Alone each request gets the one row that it should.
        assert fates == [[1], [2]]
        fates, _ = run(batch_of(1), lambda array: np.zeros((5, 1), np.float32))
        assert isinstance(fates[0], ModelError)
        assert fates[0].message == "model 'm' returned output 'y' of shape [5, 1] for a batch of 1"

    def test_a_scalar_where_a_batch_should_be(self) -> None:
        fates, _ = run(batch_of(1), lambda array: np.float32(1).reshape(()))
        assert isinstance(fates[0], ModelError)

    def test_what_the_model_raised_is_logged_and_not_told(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                fates, _ = run(batch_of(-1), fail_negative, model_config(idempotent=True, name="unlucky"))
        assert isinstance(fates[0], ModelError)
        assert fates[0].message == "model 'unlucky' failed: ArithmeticError"
        assert caplog.text.count("Traceback") == 1, "a model that always fails does not flood the log"
        assert "a negative row" in caplog.text

    def test_so_is_what_a_backend_tells_as_the_cause(self, caplog: pytest.LogCaptureFixture) -> None:
        def fail(array: Any) -> Any:
            raise ModelError("the model failed: ArithmeticError") from ArithmeticError("of its own")

        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                fates, _ = run(batch_of(1), fail, model_config(name="hapless"))
        assert str(fates[0]) == "the model failed: ArithmeticError"
        assert caplog.text.count("of its own") == 1


class TestModelsThatRunOnce:
    def test_the_whole_batch_fails_and_nothing_runs_again(self) -> None:
        fates, executor = run(batch_of(1, -2, 3), fail_negative, ONCE_ONLY)
        assert [type(fate) for fate in fates] == [ModelError] * 3
        assert len(executor.runs) == 1

    def test_a_refusal_that_names_its_row_blames_nobody_else(self) -> None:
        fates, executor = run(batch_of(1, -2, 3), refuse_row(None), ONCE_ONLY)
        assert [type(fate).__name__ for fate in fates] == ["ModelError", "InputError", "ModelError"]
        assert "negative" not in str(fates[0])
        assert len(executor.runs) == 1


class TestWhoStillWaits:
    def test_those_that_left_are_not_run_again(self) -> None:
        batch = batch_of(1, -2, 3, 4)

        def function(array: Any) -> Any:
            batch.requests[3].state = RequestState.RELEASED
            return fail_negative(array)

        fates, executor = run(batch, function)
        assert [fates[0], type(fates[1]), fates[2], fates[3]] == [[2], ModelError, [6], None]
        assert [4.0] not in executor.runs

    def test_when_all_have_left_the_batch_is_over_all_the_same(self) -> None:
        batch = batch_of(1, -2)

        def function(array: Any) -> Any:
            for request in batch.requests:
                request.state = RequestState.RELEASED
            return fail_negative(array)

        outcomes = execute(FakeExecutor(function), IDEMPOTENT, batch)
        assert [outcome.error is not None for outcome in outcomes] == [True]

    def test_a_deadline_that_passed_in_the_first_run_is_not_waited_for_again(self) -> None:
        batch = batch_of(1, -2, 3)
        batch.requests[2].deadline = 1
        fates, executor = run(batch, fail_negative)
        assert [fates[0], type(fates[1]), type(fates[2])] == [[2], ModelError, DeadlineExceeded]
        assert [3.0] not in executor.runs


class TestStreams:
    def test_responses_come_as_the_model_gives_them(self) -> None:
        outputs = execute_stream(FakeExecutor(), model_config(decoupled=True), batch_of(3))
        assert [output[0].tolist() for output in outputs] == [[[6]]] * 3

    def test_they_end_when_nobody_listens_any_more(self) -> None:
        batch = batch_of(1_000)
        executor = FakeExecutor()
        stream = execute_stream(executor, model_config(decoupled=True), batch)
        next(stream)
        batch.requests[0].state = RequestState.RELEASED
        assert list(stream) == []
        assert len(executor.runs) == 2

    def test_a_failure_comes_after_what_was_given(self) -> None:
        answers = iter([np.ones((1, 1)), None])

        def function(array: Any) -> Any:
            answer = next(answers)
            if answer is None:
                raise ValueError("enough")
            return answer

        stream = execute_stream(FakeExecutor(function), model_config(decoupled=True), batch_of(2))
        next(stream)
        with pytest.raises(ModelError, match="model 'm' failed: ValueError"):
            next(stream)


def test_models_without_batches_are_not_asked_for_rows() -> None:
    config = model_config(max_batch_size=0, outputs=(TensorSpec("y", "FP32", []),))
    fates, _ = run(batch_of(2), lambda array: array.reshape(1), config)
    assert fates == [[2]]


class TestBuffers:
    """Where a batch is gathered: in the executor's own pool, else in the server's, from a size on for each."""

    @pytest.fixture(autouse=True)
    def sizes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("guepard.engine.execution._OWN_POOL_FROM", 8)
        monkeypatch.setattr("guepard.engine.execution._SERVER_POOL_FROM", 16)

    @pytest.mark.parametrize(
        ("values", "has_own", "own", "server"),
        [((1.0,), True, 0, 0), ((1.0, 2.0), True, 1, 0), ((1.0, 2.0, 3.0), False, 0, 0), ((1.0,) * 4, False, 0, 1)],
    )
    def test_a_batch_lies_where_it_should(self, values: Any, has_own: bool, own: int, server: int) -> None:
        pools = [SlabPool(HeapArena(), limit_bytes=2**20) for _ in range(2)]
        executor = FakeExecutor()
        if has_own:
            executor.buffers = pools[0]
        (outcome,) = execute(executor, IDEMPOTENT, batch_of(*values), pools[1])
        assert outcome.outputs[0].reshape(-1).tolist() == [2 * value for value in values]
        assert [pool.statistics().grown_count for pool in pools] == [own, server]

    def test_without_a_pool_of_the_servers_it_lies_anywhere(self) -> None:
        (outcome,) = execute(FakeExecutor(), IDEMPOTENT, batch_of(1.0, 2.0, 3.0, 4.0))
        assert outcome.error is None

    @pytest.mark.parametrize("execution", ["inline", "thread"])
    def test_instances_gather_in_the_servers_pool(self, execution: str) -> None:
        pool = SlabPool(HeapArena(), limit_bytes=2**20)
        stage = Stage(execution=execution, dynamic_batching=DynamicBatching(max_queue_delay_ns=1_000), buffers=pool)
        requests = [stage.send(1.0, 2.0), stage.send(3.0, 4.0)]
        stage.clock.advance(1_000)
        if execution == "thread":
            stage.deliver()
        assert [sender_of(request).values for request in requests] == [[2, 4], [6, 8]]
        assert pool.statistics().grown_count == 1


class TestLostProcesses:
    """A batch that took its process with it: another one may run it, if it may run twice at all."""

    def test_each_request_runs_once_more_and_alone(self) -> None:
        def lose_negative(array: Any) -> Any:
            if (array < 0).any():
                raise InstanceLost("its process was lost")
            return array * 2

        fates, executor = run(batch_of(1, -2, [3, 4]), lose_negative)
        assert (fates[0], fates[2]) == ([2], [6, 8])
        assert isinstance(fates[1], InstanceLost)
        assert executor.runs == [[1, -2, 3, 4], [1], [-2], [3, 4]]

    def test_a_lone_request_runs_twice_and_no_more(self) -> None:
        lost = InstanceLost("its process was lost")

        def lose(array: Any) -> Any:
            raise lost

        fates, executor = run(batch_of(1), lose)
        assert fates == [lost]
        assert executor.runs == [[1], [1]]

    def test_what_must_not_run_twice_does_not(self) -> None:
        lost = InstanceLost("its process was lost")

        def lose(array: Any) -> Any:
            raise lost

        fates, executor = run(batch_of(1, 2), lose, ONCE_ONLY)
        assert fates == [lost, lost]
        assert executor.runs == [[1, 2]]

    def test_whoever_is_late_or_gone_meanwhile_does_not_run_again(self) -> None:
        batch = batch_of(1, 2, 3)
        late, gone, well = batch.requests

        def lose_first(array: Any) -> Any:
            if len(array) == 3:
                late.deadline = monotonic_ns() - 1
                gone.state = RequestState.RELEASED
                raise InstanceLost("its process was lost")
            return array * 2

        fates, executor = run(batch, lose_first)
        assert isinstance(fates[0], DeadlineExceeded)
        assert fates[1:] == [None, [6]]
        assert executor.runs == [[1, 2, 3], [3]]
        assert well.state is RequestState.EXECUTING

    def test_when_nobody_waits_any_more_the_batch_is_over(self) -> None:
        batch = batch_of(1)

        def lose(array: Any) -> Any:
            batch.requests[0].state = RequestState.RELEASED
            raise InstanceLost("its process was lost")

        (outcome,) = execute(FakeExecutor(lose), IDEMPOTENT, batch)
        assert isinstance(outcome.error, InstanceLost)
