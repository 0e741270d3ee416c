"""Which batches of a served model run on all CPUs, and that never two of a server do."""

import asyncio
import threading
from typing import Any

import numpy as np

from guepard.engine.cpu_permits import CpuPermits
from tests.unit.engine.fake_executors import FakeExecutor
from tests.unit.engine.stage import Stage


class Gate:
    """A function for executors that waits until the test lets it go on, and counts who is inside."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def __call__(self, array: Any) -> Any:
        self.entered.release()
        assert self.go_on.acquire(timeout=10)
        return array * 2


def values(request: Any) -> list[float]:
    found: list[float] = request.sender.values
    return found


class TestOneModel:
    def test_a_lone_request_runs_wide_and_its_company_narrow(self) -> None:
        gate = Gate()
        wide = FakeExecutor(gate)
        stage = Stage(instances=2, wide=wide, wide_rows=8)
        first = stage.send(1.0)
        stage.clock.turn()
        assert gate.entered.acquire(timeout=10)
        second = stage.send(2.0)
        stage.clock.turn()
        stage.deliver()
        assert values(second) == [4.0]
        gate.go_on.release()
        stage.deliver()
        assert values(first) == [2.0]
        assert (wide.runs, stage.executor.runs) == ([[1.0]], [[2.0]])
        assert stage.served.statistics.read().wide == 1
        asyncio.run(stage.served.close())

    def test_an_idle_model_is_wide_again(self) -> None:
        wide = FakeExecutor()
        stage = Stage(instances=2, wide=wide, wide_rows=8)
        for value in (1.0, 2.0, 3.0):
            request = stage.send(value)
            stage.clock.turn()
            stage.deliver()
            assert values(request) == [2 * value]
        assert len(wide.runs) == 3
        assert stage.executor.runs == []
        asyncio.run(stage.served.close())
        assert wide.closed

    def test_an_execution_that_fails_gives_the_permits_back(self) -> None:
        def fail(_: Any) -> Any:
            raise ArithmeticError

        permits = CpuPermits(2)
        stage = Stage(instances=2, wide=FakeExecutor(fail), permits=permits, wide_rows=8)
        request = stage.send(1.0)
        stage.clock.turn()
        assert not permits.share(1).try_enter()
        stage.deliver()
        assert stage.successes == 0
        assert request.is_released
        assert permits.share(2).try_enter()
        asyncio.run(stage.served.close())

    def test_without_a_wide_executor_nothing_is_wide(self) -> None:
        stage = Stage(instances=2, wide_rows=8)
        request = stage.send(1.0)
        stage.clock.turn()
        stage.deliver()
        assert values(request) == [2.0]
        assert stage.served.statistics.read().wide == 0
        asyncio.run(stage.served.close())

    def test_a_model_that_is_closed_lets_go_of_its_wide_executor(self) -> None:
        stage = Stage(instances=2, wide=FakeExecutor(), wide_rows=8)
        asyncio.run(stage.served.close())
        assert stage.served._pool._wide is None


class TestSeveralModels:
    def test_while_one_runs_wide_the_others_run_narrow(self) -> None:
        permits, gate = CpuPermits(2), Gate()
        first = Stage(instances=2, wide=FakeExecutor(gate), permits=permits, wide_rows=8)
        wide = FakeExecutor()
        second = Stage(instances=2, wide=wide, permits=permits, wide_rows=8)
        waiting = first.send(1.0)
        first.clock.turn()
        assert gate.entered.acquire(timeout=10)
        for expected in (0, 1):
            request = second.send(3.0)
            second.clock.turn()
            second.deliver()
            assert values(request) == [6.0]
            assert len(wide.runs) == expected
            if not expected:
                gate.go_on.release()
                first.deliver()
        assert values(waiting) == [2.0]
        for stage in (first, second):
            asyncio.run(stage.served.close())

    def test_however_requests_come_never_two_run_wide(self) -> None:
        """Three models, requests in a random order: at most one is inside a wide executor at any time."""
        permits, inside, most = CpuPermits(2), [0], [0]
        lock = threading.Lock()

        def run(array: Any) -> Any:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            threading.Event().wait(0.0005)
            with lock:
                inside[0] -= 1
            return array * 2

        stages = [Stage(instances=2, wide=FakeExecutor(run), permits=permits, wide_rows=8) for _ in range(3)]
        random = np.random.default_rng(0)
        requests = []
        for _ in range(150):
            stage = stages[random.integers(3)]
            requests.append(stage.send(1.0))
            stage.clock.turn()
            if random.random() < 0.7:
                while stage.served.executing:
                    stage.deliver()
        for stage in stages:
            while stage.served.executing or stage.served.queue_depth:
                stage.deliver()
                stage.clock.turn()
        assert [values(request) for request in requests] == [[2.0]] * len(requests)
        assert most[0] == 1
        assert sum(stage.served.statistics.read().wide for stage in stages) > 10
        assert permits.share(2).try_enter()
        for stage in stages:
            asyncio.run(stage.served.close())
