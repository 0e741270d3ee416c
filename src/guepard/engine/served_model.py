"""One model version that is being served: its queue, its instances, its counts."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic_ns, time

from guepard.backends.base import Executor, LoadedModel, Outputs
from guepard.batching.deadline_watch import DeadlineWatch
from guepard.batching.dynamic_batcher import Batch, DynamicBatcher
from guepard.batching.padding import scatter_padded, token_counts
from guepard.batching.scatter import scatter
from guepard.batching.split import split
from guepard.core.buffers import BufferPool
from guepard.core.errors import (
    Cancelled,
    DeadlineExceeded,
    ErrorCode,
    GuepardError,
    InputError,
    InternalError,
    NotReady,
    Unsupported,
)
from guepard.core.model_config import ModelConfig
from guepard.core.phases import BatchStamps
from guepard.core.reasons import FailureReason, LossReason
from guepard.core.request import InferenceRequest, RequestState
from guepard.core.response import InferenceResponse
from guepard.core.scheduler import Scheduler
from guepard.engine.background import in_thread
from guepard.engine.cpu_permits import CpuPermits
from guepard.engine.execution import Outcome
from guepard.engine.instance import Instance
from guepard.engine.instance_pool import InstancePool
from guepard.engine.model_hooks import ModelHooks
from guepard.engine.padded_signature import signature_for
from guepard.engine.processes.executor import ProcessExecutor
from guepard.telemetry.request_trace import RequestTrace
from guepard.telemetry.statistics import ModelStatistics

log = logging.getLogger(__name__)

_FAILURE_REASONS = {
    ErrorCode.INVALID_ARGUMENT: FailureReason.INVALID,
    ErrorCode.QUEUE_FULL: FailureReason.REJECTED,
    ErrorCode.DEADLINE_EXCEEDED: FailureReason.TIMEOUT,
    ErrorCode.CANCELLED: FailureReason.CANCELED,
    ErrorCode.MODEL_ERROR: FailureReason.BACKEND,
}

_MAX_PARTS = 1_024  # of one request: cutting it up and joining its answers holds the loop
_DRAIN_POLL_S = 0.01
_JOIN_S = 5.0


class ServedModel:
    """Takes requests in by `infer` and answers each exactly once through its sender.

    Everything but the instances' own work runs on the event loop's thread. `post` hands a callback to that thread.
    `wide`, `permits`, `cpus` and `buffers` are as InstancePool has them; `hooks` are the steps around the model, those
    after it being part of the executors already.
    """

    def __init__(
        self,
        config: ModelConfig,
        model: LoadedModel,
        executors: Sequence[Executor],
        scheduler: Scheduler,
        post: Callable[..., object],
        load_duration_ns: int,
        trace: RequestTrace,
        *,
        wide: Executor | None = None,
        permits: CpuPermits | None = None,
        cpus: int = 0,
        buffers: BufferPool | None = None,
        hooks: ModelHooks | None = None,
    ) -> None:
        self.config = config
        self.statistics = ModelStatistics(config.name, config.version, None if hooks is None else hooks.durations)
        self.load_duration_ns = load_duration_ns
        self.loaded_at = time()  # seconds since the epoch
        self._trace = trace
        self._is_closed = False
        self._is_down = False  # no instance runs, and none could be started
        self.ailment: str | None = None  # why the model is not fit, by its own word
        self._model = model
        self._signature = signature_for(config if hooks is None else replace(config, inputs=config.batch_inputs))
        self._padding = config.padding
        self._batcher = DynamicBatcher(
            max_batch_size=config.filled_rows,
            batching=config.dynamic_batching,
            instances=len(executors),
            max_concurrency=config.max_concurrency,
            scheduler=scheduler,
            release=self._release,
            padding=config.padding,
            wide_rows=config.wide_rows if wide is not None else 0,
        )
        inline = config.execution == "inline"
        self._pool = InstancePool(config, executors, self, post, wide=wide, permits=permits, cpus=cpus, buffers=buffers)
        self._executing: dict[int, tuple[Batch, Instance]] = {}
        self._watch = DeadlineWatch(scheduler, self._alive, self._expire)
        # An inline model without a delay answers within the turn of the loop, so that no timer could come sooner.
        self._waits = not inline or config.dynamic_batching.max_queue_delay_ns > 0
        self._max_timeout = config.timeout.max_ns
        self._timeout = min(config.timeout.default_ns, self._max_timeout)
        self._max_batch_size = config.max_batch_size

    # Requests

    @property
    def accepts(self) -> bool:
        """Whether requests are taken in."""
        return not (self._is_closed or self._is_down)

    def infer(self, request: InferenceRequest) -> None:
        """Answer `request` through its sender: at once for an error or a fast model, else later."""
        timeout = request.timeout_ns
        request.deadline = request.request_start + (min(timeout, self._max_timeout) if timeout else self._timeout)
        try:
            if self._is_closed or self._is_down:
                raise self._not_ready()
            self._signature.bind(request)
            if request.rows > self._max_batch_size > 0:
                self._check_rows(request)
                self._enqueue_parts(request)
            else:
                self._batcher.enqueue(request)
        except GuepardError as error:
            self.refuse(request, error)
            return
        if self._waits and not request.is_released:
            self._watch.watch(request.deadline)

    def _check_rows(self, request: InferenceRequest) -> None:
        """Raises: Unsupported, InputError for one that is larger than a batch and cannot be split."""
        rows, limit = request.rows, self._max_batch_size
        if rows > limit > 0:
            if self.config.decoupled:
                raise Unsupported(f"model {self.config.name!r} streams its answers and takes at most {limit} rows")
            if rows > limit * _MAX_PARTS:
                raise InputError(
                    f"{rows} rows are too many for one request: at most {_MAX_PARTS} batches of {limit}; "
                    "send several requests"
                )

    def _enqueue_parts(self, request: InferenceRequest) -> None:
        self._batcher.enqueue(request, split(request, self._max_batch_size, self._fail))

    def refuse(self, request: InferenceRequest, error: GuepardError) -> None:
        """Answer with `error` a request that was not taken in, and count it among this model's failures."""
        request.state = RequestState.FAILED_ENQUEUE
        self._record(request, error)
        request.sender.fail(request, error)

    def cancel(self, request: InferenceRequest) -> None:
        """Nobody waits for `request` any more: it leaves the queue, or its result is dropped."""
        if not request.is_released:
            self._give_up(request)
            self._count_failure(request, FailureReason.CANCELED)

    @property
    def queue_depth(self) -> int:
        return self._batcher.queue.count

    @property
    def executing(self) -> int:
        return sum(len(batch.requests) for batch, _ in self._executing.values())

    @property
    def is_fit(self) -> bool:
        """Whether requests can be answered, as far as is known."""
        return self.obstacle is None

    @property
    def obstacle(self) -> str | None:
        """Why the model is not fit: by its own word, or because no instance runs."""
        return self.ailment or self._pool.obstacle

    @property
    def losses(self) -> Mapping[LossReason, int]:
        """How many processes of its instances were lost, by why."""
        return self._pool.losses

    @property
    def processes(self) -> list[ProcessExecutor]:
        """Those that its instances run in; none unless its execution is `process`."""
        return self._pool.processes

    def pools(self) -> Mapping[int, BufferPool]:
        """The memory pools of those instances that have their own, by their numbers."""
        return self._pool.buffers

    # Batches out to the instances

    def _release(self, batch: Batch) -> None:
        for request in batch.requests:
            request.state = RequestState.EXECUTING
        instance = self._pool.take(batch)
        if self._pool.runs_wide(batch):
            self.statistics.record_wide()
        if self._waits:
            self._executing[id(batch)] = batch, instance
        instance.start(batch)

    # Answers back from the instances

    def executed(self, instance: Instance, batch: Batch, outcomes: list[Outcome]) -> None:
        try:
            for outcome in outcomes:
                if outcome.error is None:
                    self._deliver(outcome)
                else:
                    if isinstance(outcome.error, Cancelled):
                        self.statistics.record_termination()
                    for request in outcome.batch.requests:
                        if request.state is RequestState.EXECUTING:
                            self._fail(request, outcome.error, outcome.stamps)
        finally:  # whatever goes wrong with an answer, the instance is free
            self._free(instance, batch, outcomes[-1].stamps.compute_end - outcomes[0].stamps.compute_start)

    def lost(self, instance: Instance, batch: Batch) -> None:
        for request in batch.requests:
            if request.state is RequestState.EXECUTING:
                self._fail(request, InternalError("the server failed to execute the request; its log says why"))
        self._free(instance, batch, 0)

    def streamed(self, batch: Batch, outputs: Outputs) -> None:
        request = batch.requests[0]
        if not request.is_released:
            request.sender.send(request, InferenceResponse(self.config, outputs), final=False)

    def stream_ended(self, instance: Instance, batch: Batch, stamps: BatchStamps, error: GuepardError | None) -> None:
        request = batch.requests[0]
        if not request.is_released:
            if error is None:
                request.state = RequestState.RELEASED
                request.stamps = stamps
                request.sender.finish(request)
                self._count_execution(batch, batch.requests, stamps)
            else:
                self._fail(request, error, stamps)
        self._free(instance, batch, stamps.compute_end - stamps.compute_start)

    def _deliver(self, outcome: Outcome) -> None:
        batch, stamps = outcome.batch, outcome.stamps
        config = self.config
        answered = batch.requests
        partial = False
        padding = self._padding
        answers = (
            scatter(batch.requests, outcome.outputs)
            if padding is None
            else scatter_padded(batch.requests, outcome.outputs, padding)
        )
        for request, outputs in answers:
            if request.state is not RequestState.EXECUTING:
                partial = True
                continue
            if request.whole is not None:
                partial = True
            request.state = RequestState.RELEASED
            request.stamps = stamps
            try:
                request.sender.send(request, InferenceResponse(config, outputs), True)
            except Exception:  # a fault of one caller's front end must not cost the others of the batch their answers
                log.exception("the answer to a request of model %s could not be handed over", config.name)
        if partial:
            answered = [request for request in answered if request.stamps is stamps and _completes(request)]
        self._count_execution(batch, answered, stamps)

    def _count_execution(self, batch: Batch, answered: list[InferenceRequest], stamps: BatchStamps) -> None:
        now = monotonic_ns()
        self.statistics.record_execution(answered, batch.rows, stamps, now, batch.reason)
        if self._padding is not None:
            self.statistics.record_tokens(*token_counts(batch.requests, self._padding))
        if self._trace.is_on:
            self._trace.succeeded(self.config, answered, stamps, now)

    def _free(self, instance: Instance, batch: Batch, busy_ns: int) -> None:
        self._executing.pop(id(batch), None)
        if self._pool.give_back(instance, batch):
            self._batcher.instance_freed(batch, busy_ns)
        else:
            self._batcher.batch_ended(batch, busy_ns)

    # Instances that are lost and come back

    def instance_lost(self, instance: Instance) -> None:
        if self._pool.lose(instance):
            self._batcher.instance_lost()

    def instance_mended(self, instance: Instance) -> None:
        if self._pool.mended(instance):
            self._is_down = False
            self._batcher.instance_mended()

    def instance_down(self, instance: Instance, reason: str) -> None:
        """With no instance left, whoever waits or comes is told so at once."""
        if self._pool.note_failure(instance, reason):
            self._is_down = True
            self._fail_all(self._not_ready())

    def _not_ready(self) -> NotReady:
        name = self.config.name
        if self._is_closed:
            return NotReady(f"model {name!r} is being unloaded", retry_after_ms=1_000)
        reason = f"model {name!r} has no instance that runs: {self.obstacle}"
        return NotReady(reason, retry_after_ms=self._pool.retry_after_ms)

    # Requests that end without a result

    def _fail(self, request: InferenceRequest, error: GuepardError, stamps: BatchStamps | None = None) -> None:
        """Answer `request` with `error`; if it is a part, that ends the whole and its other parts.

        `stamps`: of the execution that failed, if there was one.
        """
        whole = request.whole
        request.state = RequestState.RELEASED
        if whole is None:
            self._record(request, error, stamps)
        elif not whole.is_released:
            self._record(whole, error, stamps)
        request.sender.fail(request, error)
        if whole is not None:
            self._drop_parts(whole)

    def _expire(self, request: InferenceRequest) -> None:
        if request.is_released:
            return  # a part whose whole has just been answered
        running = request.state is RequestState.EXECUTING
        self._give_up(request)
        self._fail(request, DeadlineExceeded(f"the deadline passed while {'running' if running else 'waiting'}"))

    def _fail_all(self, error: GuepardError) -> None:
        for request in list(self._alive()):
            if not request.is_released:
                self._give_up(request)
                self._fail(request, error)

    def _give_up(self, request: InferenceRequest) -> None:
        if request.rows > self._max_batch_size > 0:
            self._drop_parts(request)
        elif request.state is RequestState.PENDING:
            self._batcher.withdraw(request)
        was_executing = request.state is RequestState.EXECUTING
        request.state = RequestState.RELEASED
        if was_executing:
            self._terminate_unwanted()

    def _terminate_unwanted(self) -> None:
        """End the executions that run for nobody any more."""
        for batch, instance in self._executing.values():
            if all(request.is_released for request in batch.requests):
                instance.terminate()

    def _drop_parts(self, whole: InferenceRequest) -> None:
        for part in [request for request in self._alive() if request.whole is whole]:
            self._give_up(part)

    def _record(self, request: InferenceRequest, error: GuepardError, stamps: BatchStamps | None = None) -> None:
        self._count_failure(request, _FAILURE_REASONS.get(error.code, FailureReason.OTHER), stamps)

    def _count_failure(
        self, request: InferenceRequest, reason: FailureReason, stamps: BatchStamps | None = None
    ) -> None:
        now = monotonic_ns()
        self.statistics.record_failure(request, reason, now)
        if self._trace.is_on:
            self._trace.failed(self.config, request, stamps, now, reason)

    def _alive(self) -> Iterator[InferenceRequest]:
        yield from self._batcher.queue
        for batch, _ in self._executing.values():
            for request in batch.requests:
                if request.state is RequestState.EXECUTING:
                    yield request

    # The end

    def health(self) -> None:
        """Raises whatever the model raises when it knows itself to be unfit. May block."""
        self._model.health()

    def activity(self) -> object:
        """Something that compares unequal to what it was before any execution or failure. Cost: under 1 µs."""
        return self.statistics.activity()

    def trim(self) -> None:
        """Have the model give back memory that it does not need now. May block."""
        self._model.trim()

    async def drain(self, timeout_s: float) -> bool:
        """Wait until every request that was taken in has been answered. False when `timeout_s` was not enough."""
        deadline = monotonic_ns() + int(timeout_s * 1e9)
        while any(True for _ in self._alive()):
            if monotonic_ns() >= deadline:
                return False
            await asyncio.sleep(_DRAIN_POLL_S)
        return True

    async def close(self) -> None:
        """Stop the instances and let go of the model. Requests that still wait are answered with 503.

        A model that hangs in an execution keeps its memory: it cannot be closed under its own feet.
        """
        self._is_closed = True
        self._watch.stop()
        self._fail_all(NotReady(f"model {self.config.name!r} was unloaded", retry_after_ms=1_000))
        # Front ends may hold on to this object for as long as a connection lives; the model's memory must not wait.
        instances = self._pool.dissolve()
        await in_thread(f"close-{self.config.name}", lambda: self._let_go(instances))

    def _let_go(self, instances: Sequence[Instance]) -> None:
        have_ended = [instance.join(_JOIN_S) for instance in instances]  # each is to be waited for, and then abandoned
        if all(have_ended):
            self._model.close()
        else:
            log.warning("model %s is still executing and was left behind", self.config.name)


def _completes(request: InferenceRequest) -> bool:
    """Of a request that was split only the part that completed it counts as an answered request."""
    return request.whole is None or request.whole.stamps is request.stamps
