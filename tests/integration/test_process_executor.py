"""A model in a process as the engine drives it: streams, health, memory, and answers that lie. Without a server."""

import gc
import logging
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guepard.backends.base import ModelSource
from guepard.core.errors import InputError, InstanceLost, LoadError, ModelError
from guepard.core.model_config import InstanceGroup, ModelPolicy
from guepard.core.reasons import LossReason
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.response import ResponseSender
from guepard.core.tensor import Array
from guepard.engine.processes import executor as executor_module
from guepard.engine.processes.executor import ProcessExecutor
from guepard.engine.processes.model import ProcessModel
from guepard.engine.processes.worker_process import RemoteAilment
from guepard.transport.frames import Place, Result
from tests.services.heavy_models import matmul_stack
from tests.services.onnx_models import write_model
from tests.services.processes import is_running
from tests.services.waiting import wait_until
from tests.unit.batching.arrivals import RecordedSender

SERVICES = Path(__file__).parent.parent / "services"


def source(entry: str, file: str = "process_models.py", **parameters: Any) -> ModelSource:
    policy = ModelPolicy(parameters=parameters)
    return ModelSource("m", "1", SERVICES / file, policy, entry=entry, trusted=True)


@pytest.fixture
def start() -> Iterator[Callable[..., ProcessExecutor]]:
    started: list[ProcessExecutor] = []

    def begin(entry: str, file: str = "process_models.py", timeout_ns: int = 0, **parameters: Any) -> ProcessExecutor:
        started.append(ProcessExecutor(source(entry, file, **parameters), "python", timeout_ns, 0))
        return started[-1]

    yield begin
    pids = [executor.pid for executor in started]
    for executor in started:
        executor.close()
    assert not any(map(is_running, pids))


Start = Callable[..., ProcessExecutor]


def request(sender: ResponseSender | None = None, **parameters: Any) -> InferenceRequest:
    made = InferenceRequest([], sender or RecordedSender(), 0)
    made.rows = 1
    made.deadline = 2**62
    made.parameters = parameters
    return made


def ask(executor: ProcessExecutor, x: Array, **parameters: Any) -> list[Array]:
    return list(executor.execute([x], [request(**parameters)]))


ONE = np.array([[1]], np.int32)


@pytest.fixture(scope="module")
def streams() -> Iterator[ProcessExecutor]:
    with closing(ProcessExecutor(source("Streams"), "python", 0, 0)) as executor:
        yield executor


class TestStreams:
    def test_to_their_end(self, streams: ProcessExecutor) -> None:
        for count in (0, 1, 5):
            answers = list(streams.execute_stream([np.array([count], np.int32)], [request()]))
            assert [int(outputs[0][0]) for outputs in answers] == list(range(count))
            assert all(outputs[0].shape == (3_000,) for outputs in answers)

    def test_closed_half_way(self, start: Start, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("INFO"):  # which the process asks for when it starts
            executor = start("Streams")
            stream = executor.execute_stream([np.array([1_000_000], np.int32)], [request()])
            assert [int(next(stream)[0][0]) for _ in range(2)] == [0, 1]
            stream.close()  # type: ignore[attr-defined]
            assert len(list(executor.execute_stream([np.array([1], np.int32)], [request()]))) == 1
            wait_until(lambda: [record.message for record in caplog.records].count("left") == 2)

    @pytest.mark.parametrize(("how", "error"), [("raise", ModelError), ("refuse", InputError), ("die", InstanceLost)])
    def test_an_error_in_the_middle(self, streams: ProcessExecutor, how: str, error: type[Exception]) -> None:
        stream = streams.execute_stream([np.array([9], np.int32)], [request(how=how)])
        assert [int(next(stream)[0][0]) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(error):
            next(stream)
        assert len(list(streams.execute_stream([np.array([2], np.int32)], [request()]))) == 2

    def test_a_finally_that_raises(self, streams: ProcessExecutor, caplog: pytest.LogCaptureFixture) -> None:
        stream = streams.execute_stream([np.array([9], np.int32)], [request(how="raise at the end")])
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert len(list(streams.execute_stream([np.array([2], np.int32)], [request()]))) == 2
        wait_until(lambda: any("while closing a stream" in record.message for record in caplog.records))

    def test_a_slow_taker_is_no_hanging_model(self, start: Start) -> None:
        executor = start("Streams", timeout_ns=300_000_000)
        stream = executor.execute_stream([np.array([3], np.int32)], [request()])
        next(stream)
        assert not threading.Event().wait(1.0)
        assert len(list(stream)) == 2


class TestHealth:
    def test_the_model_s_own_word(self, tmp_path: Path) -> None:
        mark = tmp_path / "mark"
        with closing(ProcessModel(source("Moody", mark=str(mark)), "python", 0, 0)) as model:
            executor = model.executor()
            model.health()
            mark.touch()
            with pytest.raises(RemoteAilment, match="RuntimeError: secret detail") as caught:
                model.health()
            assert caught.value.kind == "RuntimeError"
            mark.unlink()
            model.health()
            os.kill(executor.pid, signal.SIGKILL)
            model.health()  # it is being replaced, which is nobody's ailment
            model.trim()

    def test_a_process_that_is_stopped_meanwhile(self, start: Start) -> None:
        executor = start("Faulty")
        os.kill(executor.pid, signal.SIGSTOP)
        with pytest.raises((InstanceLost, TimeoutError)):
            executor.health()


class TestLoss:
    def test_each_reason_is_counted_once_and_told(self, start: Start) -> None:
        executor = start("Faulty")
        told = threading.Semaphore(0)
        executor.on_loss = told.release
        for number in (1, 2):
            with pytest.raises(InstanceLost, match="model 'm' failed: its process was killed by SIGKILL"):
                ask(executor, ONE, do="kill")
            assert told.acquire(timeout=10)
            assert executor.losses[LossReason.EXITED] == number
            assert ask(executor, ONE)[0].tolist() == [[2]]
        assert sum(executor.losses.values()) == 2

    def test_patience_grows_with_what_batches_take_and_is_bounded(self, start: Start) -> None:
        executor = start("Faulty")
        assert executor.timeout_ns == 5_000_000_000
        for _ in range(10):
            executor._patience.remember(2_000_000_000)
        assert executor.timeout_ns == pytest.approx(10_000_000_000, rel=0.01)
        for _ in range(300):
            executor._patience.remember(1_000_000)
        assert executor.timeout_ns == 5_000_000_000
        assert start("Faulty", timeout_ns=123).timeout_ns == 123

    def test_python_code_is_not_told_to_end(self, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        executor = start("Faulty")
        looked, told = threading.Event(), list[int]()
        monkeypatch.setattr(executor._worker, "terminate", told.append)
        watch = executor._worker.watch

        def watched(limit_ns: int, look: Callable[[], None]) -> None:
            def noted() -> None:
                look()
                looked.set()

            watch(limit_ns, noted)

        monkeypatch.setattr(executor._worker, "watch", watched)
        unwanted = request(do="sleep", seconds=0.5)
        unwanted.state = RequestState.RELEASED
        executor.execute([ONE], [unwanted])
        assert looked.is_set()
        assert told == []

    def test_abandoned_while_it_runs(self, start: Start) -> None:
        executor = start("Faulty")
        pid = executor.pid
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(ask, executor, ONE, do="hold")
            wait_until(lambda: executor._worker._since > 0)
            executor.abandon()
            assert isinstance(running.exception(), InstanceLost)
        assert not is_running(pid)

    def test_abandoned_while_another_is_started(self, start: Start, tmp_path: Path) -> None:
        mark = tmp_path / "mark"
        executor = start("WaitsInLoad", mark=str(mark))
        mark.touch()
        with ThreadPoolExecutor(1) as threads:
            executor._worker.give_up(LossReason.EXITED, "was lost")
            mending = threads.submit(executor.mend)
            wait_until(lambda: executor._starting is not None)
            executor.abandon()
            assert isinstance(mending.exception(), LoadError)

    def test_parameters_that_no_frame_holds(self, start: Start) -> None:
        executor = start("Faulty")
        for value in (2**70, "\udcff", object()):
            with pytest.raises(InputError, match="a value cannot be handed to the model's process"):
                ask(executor, ONE, k=value)
        assert ask(executor, ONE)[0].tolist() == [[2]]


PID = Place("INT64", (1, 1), -1, 8, bytes(8))
LIES: tuple[dict[str, Any], ...] = (
    {"outputs": ()},
    {"outputs": (PID, PID)},
    {"outputs": (Place("INT32", (-1, 1), -1, 4, bytes(4)), PID)},
    {"outputs": (Place("INT32", (2, 1), -1, 4, bytes(4)), PID)},
    {"outputs": (Place("INT32", (0, 2**62), -1, 0), PID)},
    {"outputs": (Place("INT32", (1, 1), 10**9, 4), PID)},
    {"offset": 2**60, "size_bytes": 4},
    {"offset": -4, "size_bytes": 4},
)


def test_results_that_lie(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = start("Faulty")
    truth = executor._receive
    for number, lie in enumerate(LIES):

        def lying(lie: dict[str, Any] = lie) -> Any:
            answer = truth()
            assert isinstance(answer, Result)
            fields: dict[str, Any] = {"ticket": 0, "offset": 0, "size_bytes": 0, "outputs": answer.outputs}
            return Result(**fields | lie)

        with monkeypatch.context() as patched:
            patched.setattr(executor, "_receive", lying)
            with pytest.raises(InstanceLost) as caught:
                ask(executor, ONE)
        assert caught.value.message == "model 'm' failed: its process wrote over its socket"
        assert ask(executor, ONE)[0].tolist() == [[2]]
        assert executor.losses[LossReason.GARBLED] == number + 1


class TestMemory:
    def test_outputs_that_are_held_stay_while_others_come_and_go(self, start: Start) -> None:
        executor = start("ReturnsItsBuffer", "python_models.py")
        generator = np.random.default_rng(0)
        held = []
        for number in range(300):
            x = generator.random((1, 2_000 + 37 * (number % 40)), np.float32)
            (y,) = ask(executor, x)
            if number % 10 == 0:
                held.append((x, y[:, 5:] if number % 20 else y))
            assert np.array_equal(x, y)
            assert not y.flags.writeable
        for x, y in held:
            assert np.array_equal(x[:, -y.shape[1] :], y)
        del y
        held.clear()
        gc.collect()
        ask(executor, x)
        ask(executor, x)
        assert executor._held_bytes < 100_000

    def test_beyond_what_may_be_held_outputs_are_copied(self, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(executor_module, "_HELD_LIMIT_BYTES", 100_000)
        executor = start("ReturnsItsBuffer", "python_models.py")
        held = [(x, ask(executor, x)[0]) for x in (np.full((1, 10_000), n, np.float32) for n in range(20))]
        assert executor._held_bytes <= 100_000
        assert all(np.array_equal(x, y) for x, y in held)

    def test_memory_of_lost_processes_goes_without_waiting_for_a_collection(self, start: Start) -> None:
        executor = start("ReturnsItsBuffer", "python_models.py")
        x = np.ones((1, 50_000), np.float32)
        counts = []
        gc.disable()
        try:
            for _ in range(4):
                os.kill(executor.pid, signal.SIGKILL)
                assert np.array_equal(ask(executor, x)[0], x)  # the lost process had been given the batch, or not
                counts.append(len(_memories()))
        finally:
            gc.enable()
        assert max(counts) == counts[0]

    def test_inputs_and_outputs_of_any_size_and_layout(self, start: Start) -> None:
        executor = start("ReturnsItsBuffer", "python_models.py")
        rng = random.Random(3)
        for size in (0, 1, 1_024, 1_025, 100_000, 3_000_001, *[rng.randrange(1, 50_000) for _ in range(20)]):
            x = np.arange(2 * size, dtype=np.float32).reshape(1, -1)[:, ::2]
            assert np.array_equal(ask(executor, x)[0], x)
        lease = np.frombuffer(executor.buffers.lease(40_000), np.float32).reshape(1, -1)
        lease[:] = 7
        assert np.array_equal(ask(executor, lease)[0], lease)  # where it already lies


def _memories() -> list[str]:
    """Descriptors of this process on shared memory of the model."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one of this list
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [target for target in found if target.startswith("/memfd:guepard-m-")]


def test_executors_of_one_model_are_strangers() -> None:
    with closing(ProcessModel(source("Faulty"), "python", 0, 0)) as model, ThreadPoolExecutor(4) as threads:
        executors = [model.executor() for _ in range(2)]
        assert executors[0].pid != executors[1].pid

        def work(executor: ProcessExecutor) -> bool:
            return all(
                ask(executor, np.array([[number]], np.int32))[0].tolist() == [[2 * number]] for number in range(300)
            )

        assert all(threads.map(work, executors))


def test_what_keeps_weights_from_being_shared_is_said_once_for_a_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").touch()  # where a folder would have to be
    file = write_model(tmp_path / "model.onnx", matmul_stack())
    policy = ModelPolicy(instance_group=InstanceGroup(count=2, execution="process"))
    given = ModelSource("m", "1", file, policy, cache=tmp_path / "cache", memory_bytes=2**40)
    with caplog.at_level(logging.DEBUG), closing(ProcessModel(given, "onnxruntime", 0, 0)) as model:
        first, second = model.executor(), model.executor()
        for executor in (first, second):
            os.kill(executor.pid, signal.SIGKILL)
            wait_until(lambda executor=executor: executor.is_lost)  # type: ignore[misc]
            executor.mend()

        def levels() -> list[str]:
            return [record.levelname for record in caplog.records if "cannot be shared" in record.getMessage()]

        wait_until(lambda: len(levels()) == 4)
    assert sorted(levels()) == ["DEBUG", "DEBUG", "DEBUG", "WARNING"]
