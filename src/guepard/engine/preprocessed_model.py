"""A served model with steps before it: requests pass them on threads beside the event loop, then wait for a batch."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from guepard.batching.dynamic_batcher import Batch
from guepard.core.errors import DeadlineExceeded, GuepardError, InternalError, QueueFull
from guepard.core.model_config import MILLISECOND
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.tensor import Tensor
from guepard.engine.execution import as_model_error
from guepard.engine.model_hooks import ModelHooks
from guepard.engine.served_model import ServedModel
from guepard.engine.signature import Signature
from guepard.engine.step_pool import StepPool
from guepard.hooks.base import Tensors

_READY_BYTES = 2**26
"""Of tensors that are made and wait for a batch, as far as they are more than two batches for each instance: what
waits beyond waits as it came, which is smaller for images and counted among the bytes of bodies."""


class PreprocessedModel(ServedModel):
    """A request counts as waiting while its steps wait or run; `queue_start` is when its tensors are ready.

    `hooks` have steps before the model, which run on the threads of `pool`.
    """

    def __init__(self, *arguments: Any, hooks: ModelHooks, pool: StepPool, **named: Any) -> None:
        super().__init__(*arguments, hooks=hooks, **named)
        self._hooks = hooks
        self._outer = Signature(self.config)
        self._step_pool = pool
        self._lane = pool.lane()
        self._preparing: dict[InferenceRequest, _Preparation] = {}
        self._max_queue_size = self.config.dynamic_batching.max_queue_size
        self._ready_rows = 2 * max(1, self.config.filled_rows) * self.config.instance_count
        self._row_bytes = 0
        self._step_ns = 0.0

    def infer(self, request: InferenceRequest) -> None:
        timeout = request.timeout_ns
        request.deadline = request.request_start + (min(timeout, self._max_timeout) if timeout else self._timeout)
        try:
            if not self.accepts:
                raise self._not_ready()
            self._outer.bind(request)
            self._check_rows(request)
            if len(self._preparing) + self._batcher.queue.count >= self._max_queue_size:
                raise QueueFull(
                    f"the queue is full ({self._max_queue_size} requests wait); try again later",
                    retry_after_ms=self._predicted_wait_ms(),
                )
        except GuepardError as error:
            self.refuse(request, error)
            return
        request.state = RequestState.PENDING
        preparation = self._preparing[request] = _Preparation(self, request)
        self._watch.watch(request.deadline)
        self._lane.put(preparation)

    @property
    def queue_depth(self) -> int:
        return super().queue_depth + len(self._preparing)

    def preprocess(self, tensors: Tensors, spent_ns: list[int]) -> Tensors:
        """On any thread. Raises: GuepardError."""
        assert self._hooks.before is not None
        try:
            return self._hooks.before.run(tensors, spent_ns)
        except BaseException as error:
            raise as_model_error(self.config, error) from None

    def prepared(self, preparation: "_Preparation") -> None:
        """The steps of a request are done. Whoever left meanwhile is past caring."""
        request = preparation.request
        if self._preparing.pop(request, None) is None:
            return
        try:
            self._note(preparation)
            if preparation.error is not None:
                raise preparation.error
            self._bind_prepared(request, preparation.tensors)
            if request.rows > self._max_batch_size > 0:
                self._enqueue_parts(request)
            else:
                self._batcher.enqueue(request)
        except GuepardError as error:
            self._fail(request, error)
        self._pace()

    def _bind_prepared(self, request: InferenceRequest, tensors: Tensors) -> None:
        rows = request.rows
        by_name = {spec.name: spec for spec in self.config.batch_inputs}
        request.tensors = [
            Tensor(name, by_name[name].datatype.name, np.ascontiguousarray(array)) for name, array in tensors.items()
        ]
        self._signature.bind(request)
        if request.rows != rows:
            raise InternalError(f"preprocessing made {request.rows} rows out of {rows}")
        if rows:
            self._row_bytes = sum(array.nbytes for array in tensors.values()) // rows

    def _note(self, preparation: "_Preparation") -> None:
        if preparation.error is None and self._hooks.before is not None and self._hooks.durations is not None:
            self._hooks.durations.record(self._hooks.before.names, preparation.spent_ns)
        self._step_ns += 0.125 * (sum(preparation.spent_ns) - self._step_ns)

    def _predicted_wait_ms(self) -> int:
        steps_ns = len(self._preparing) * self._step_ns / self._step_pool.count
        return max(self._batcher.predicted_wait_ms(), round(steps_ns / MILLISECOND))

    def _release(self, batch: Batch) -> None:
        super()._release(batch)
        self._pace()

    def _pace(self) -> None:
        """Decode no further ahead of the executions than is of use."""
        rows = self._batcher.queue.rows
        self._lane.pause(rows > self._ready_rows and rows * self._row_bytes > _READY_BYTES)

    def _give_up(self, request: InferenceRequest) -> None:
        preparation = self._preparing.pop(request, None)
        if preparation is None:
            super()._give_up(request)
            self._pace()
        else:
            self._lane.drop(preparation)
            request.state = RequestState.RELEASED

    def _expire(self, request: InferenceRequest) -> None:
        if request in self._preparing:
            self._give_up(request)
            self._fail(request, DeadlineExceeded("the deadline passed while its inputs were preprocessed"))
        else:
            super()._expire(request)

    def _alive(self) -> Iterator[InferenceRequest]:
        yield from self._preparing
        yield from super()._alive()

    async def close(self) -> None:
        await super().close()
        self._lane.close()


class _Preparation:
    """The steps of one request. A Job."""

    __slots__ = ("_model", "error", "request", "spent_ns", "tensors")

    def __init__(self, model: PreprocessedModel, request: InferenceRequest) -> None:
        self._model = model
        self.request = request
        self.tensors: Tensors = {tensor.name: tensor.array for tensor in request.tensors}
        self.spent_ns: list[int] = []
        self.error: GuepardError | None = None

    def run(self) -> None:
        if self.request.is_released:
            return
        spent_ns = self.spent_ns = [0] * len(self._model.config.preprocess)
        try:
            self.tensors = self._model.preprocess(self.tensors, spent_ns)
        except GuepardError as error:
            self.error = error

    def done(self) -> None:
        self._model.prepared(self)
