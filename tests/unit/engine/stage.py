"""A served model on a clock that the test moves, with the loop's thread played by the test."""

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import monotonic_ns
from typing import Any

import numpy as np

from guepard.core.buffers import BufferPool
from guepard.core.reasons import FailureReason
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Tensor
from guepard.engine.cpu_permits import CpuPermits
from guepard.engine.model_hooks import ModelHooks
from guepard.engine.preprocessed_model import PreprocessedModel
from guepard.engine.served_model import ServedModel
from guepard.engine.step_pool import StepPool
from guepard.telemetry.request_trace import UNBOUNDED, RequestTrace, TracePlan
from guepard.testing.manual_scheduler import ManualScheduler
from tests.unit.batching.arrivals import RecordedSender
from tests.unit.engine.configs import model_config
from tests.unit.engine.fake_executors import FakeExecutor, FakeModel

_PATIENCE_S = 10.0


class Stage:
    """`deliver` runs the next callback that an instance's thread has posted, once there is one."""

    def __init__(
        self,
        function: Callable[[Any], Any] | None = None,
        *,
        instances: int = 1,
        wide: FakeExecutor | None = None,
        permits: CpuPermits | None = None,
        buffers: BufferPool | None = None,
        hooks: ModelHooks | None = None,
        threads: int = 2,
        **config: Any,
    ) -> None:
        self.clock = ManualScheduler(monotonic_ns())
        self.executor = FakeExecutor(function)
        self.model = FakeModel(self.executor)
        self.trace = RequestTrace(TracePlan(is_on=False, rate=1, limit=UNBOUNDED))
        self._posted: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]]] = SimpleQueue()
        post = lambda callback, *arguments: self._posted.put((callback, arguments))  # noqa: E731
        make: Callable[..., ServedModel] = ServedModel
        if hooks is not None and hooks.before is not None:
            self.steps = StepPool(threads, self.clock, post)
            make = partial(PreprocessedModel, pool=self.steps)
            config = {"model_inputs": hooks.description.inputs, "preprocess": hooks.before.names} | config
        self.served = make(
            model_config(**config),
            self.model,
            [self.executor] * instances,
            self.clock,
            post,
            load_duration_ns=0,
            trace=self.trace,
            wide=wide,
            permits=permits,
            buffers=buffers,
            hooks=hooks,
        )

    def send(self, *values: float, **fields: Any) -> InferenceRequest:
        """One request, a row for each of `values`, at this moment. `fields` are set on it."""
        array = np.array(values, np.float32).reshape(-1, 1)
        request = InferenceRequest([Tensor("x", "FP32", array)], RecordedSender(), self.clock.now())
        for name, value in fields.items():
            setattr(request, name, value)
        self.served.infer(request)
        return request

    def deliver(self) -> None:
        callback, arguments = self._posted.get(timeout=_PATIENCE_S)
        callback(*arguments)

    def deliver_until(self, is_done: Callable[[], bool]) -> None:
        """`deliver` as often as it takes, each time at the end of a turn of the loop."""
        self.clock.turn()
        while not is_done():
            self.deliver()
            self.clock.turn()

    def failures(self) -> dict[FailureReason, int]:
        """Counts by reason, those of 0 left out."""
        return {reason: count for reason, count in self.served.statistics.read().failures.items() if count}

    @property
    def successes(self) -> int:
        return self.served.statistics.read().request.count
