"""Runs one batch on one executor, and keeps a request that breaks it from breaking the others.

When a batch fails and the model is idempotent, the batch is cut in half and each half runs again, until the request at
fault stands alone; an `InputError` that names its row needs no search. When the process that ran it was lost, each
request runs once more by itself. Models that are not idempotent (Python code,
unless it says otherwise) fail the whole batch, but only the request that holds that row is told that it was wrong.
"""

import logging
from collections.abc import Iterator
from time import monotonic_ns
from typing import NamedTuple

from guepard.backends.base import Executor, Outputs
from guepard.batching.dynamic_batcher import Batch
from guepard.batching.gather import gather
from guepard.batching.padding import gather_padded, wrong_length
from guepard.core.buffers import BufferPool
from guepard.core.errors import DeadlineExceeded, GuepardError, InputError, InstanceLost, ModelError
from guepard.core.model_config import ModelConfig
from guepard.core.padding import Padding
from guepard.core.phases import BatchStamps
from guepard.core.reasons import ReleaseReason
from guepard.core.request import InferenceRequest, RequestState

log = logging.getLogger(__name__)

_TRACEBACK_EVERY_NS = 1_000_000_000
# From these sizes on a batch is gathered where its executor wants it, or else in the server's pool (ADR 0020).
_OWN_POOL_FROM = 2**18  # below, a second copy costs less than a lease
_SERVER_POOL_FROM = 2**25  # malloc keeps and reuses what is smaller


class _Tracebacks:
    """Writes what models raised, of each model once a second: a model that fails always must not flood the log."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def write(self, config: ModelConfig, error: BaseException) -> None:
        name, now = config.name, monotonic_ns()
        if now < self._next.get(name, 0):
            self._left_out[name] = self._left_out.get(name, 0) + 1
            return
        self._next[name] = now + _TRACEBACK_EVERY_NS
        left_out = self._left_out.pop(name, 0)
        also = f", as {left_out} times before that are not shown" if left_out else ""
        log.error("model %s version %s failed%s", name, config.version, also, exc_info=error)


_tracebacks = _Tracebacks()


class Outcome(NamedTuple):
    """What became of a batch or of a part of it: either outputs or an error, for all of its requests."""

    batch: Batch
    stamps: BatchStamps
    outputs: Outputs
    error: GuepardError | None


def execute(executor: Executor, config: ModelConfig, batch: Batch, buffers: BufferPool | None = None) -> list[Outcome]:
    """Run `batch`. One outcome when all goes well; several when parts of it had to run again. Never raises.

    Very large batches are gathered in `buffers`, unless the executor has its own.
    """
    stamps = BatchStamps()
    stamps.compute_start = monotonic_ns()
    try:
        padding = config.padding
        if padding is not None:
            inputs = gather_padded(batch.requests, padding)
        elif (own := executor.buffers) is None:
            inputs = gather(batch.requests, buffers, _SERVER_POOL_FROM)
        else:
            inputs = gather(batch.requests, own, _OWN_POOL_FROM)
        stamps.compute_input_end = monotonic_ns()
        outputs = executor.execute(inputs, batch.requests)
        stamps.compute_output_start = monotonic_ns()
        _check_rows(config, batch, outputs)
        if padding is not None:
            _check_lengths(config, padding, batch, outputs)
    except BaseException as error:  # code of users may raise anything, and nothing may take the instance with it
        stamps.compute_end = monotonic_ns()
        return _isolate(executor, config, batch, stamps, as_model_error(config, error))
    stamps.compute_end = monotonic_ns()
    return [Outcome(batch, stamps, outputs, None)]


def execute_stream(executor: Executor, config: ModelConfig, batch: Batch) -> Iterator[Outputs]:
    """The responses of a decoupled model to the only request of `batch`, until that request is released.

    Raises: GuepardError.
    """
    request = batch.requests[0]
    try:
        for outputs in executor.execute_stream(gather(batch.requests), batch.requests):
            if request.is_released:
                return
            yield outputs
    except BaseException as error:
        raise as_model_error(config, error) from None


def as_model_error(config: ModelConfig, error: BaseException) -> GuepardError:
    """`error` as callers may see it. What the model raised goes to the log, with its traceback, and nowhere else."""
    if isinstance(error, GuepardError):
        if isinstance(error, ModelError) and error.__cause__ is not None:
            _tracebacks.write(config, error.__cause__)
        return error
    _tracebacks.write(config, error)
    return ModelError(f"model {config.name!r} failed: {type(error).__name__}")


def _check_rows(config: ModelConfig, batch: Batch, outputs: Outputs) -> None:
    if config.max_batch_size:
        for spec, output in zip(config.outputs, outputs, strict=True):
            if output.ndim == 0 or output.shape[0] != batch.rows:
                raise ModelError(
                    f"model {config.name!r} returned output {spec.name!r} of shape {list(output.shape)}"
                    f" for a batch of {batch.rows}"
                )


def _check_lengths(config: ModelConfig, padding: Padding, batch: Batch, outputs: Outputs) -> None:
    wrong = wrong_length(batch.requests, outputs, padding)
    if wrong is not None:
        cut, length = wrong
        raise ModelError(
            f"model {config.name!r} returned output {cut.name!r} of shape {list(outputs[cut.place].shape)} for a batch "
            f"of length {length}, and padding.outputs says that dimension {cut.axis} is as long"
        )


def _isolate(
    executor: Executor, config: ModelConfig, batch: Batch, stamps: BatchStamps, error: GuepardError
) -> list[Outcome]:
    requests = batch.requests
    if isinstance(error, InstanceLost):
        return _retry_alone(executor, config, batch, stamps, error)
    if len(requests) == 1:
        return [Outcome(batch, stamps, (), error)]
    guilty = _holder(requests, error.row) if isinstance(error, InputError) and error.row is not None else None
    if guilty is not None:
        outcomes = [Outcome(_part([guilty]), stamps, (), error)]
        groups = [[request for request in requests if request is not guilty]]
        if not config.idempotent:
            return [*outcomes, Outcome(_part(groups[0]), stamps, (), _collateral(config))]
    elif not config.idempotent:
        return [Outcome(batch, stamps, (), error)]
    else:
        outcomes = []
        middle = len(requests) // 2
        groups = [requests[:middle], requests[middle:]]
    for group in groups:
        outcomes += _again(executor, config, group, stamps)
    return outcomes or [Outcome(batch, stamps, (), error)]  # nobody waits any more, but the batch is over


def _retry_alone(
    executor: Executor, config: ModelConfig, batch: Batch, stamps: BatchStamps, error: GuepardError
) -> list[Outcome]:
    """After a batch took its process with it: each request once more and by itself, if the model is idempotent."""
    if not config.idempotent or batch.reason is ReleaseReason.RETRY:
        return [Outcome(batch, stamps, (), error)]
    outcomes = []
    for request in batch.requests:
        outcomes += _again(executor, config, [request], stamps)
    return outcomes or [Outcome(batch, stamps, (), error)]


def _collateral(config: ModelConfig) -> ModelError:
    """For requests that were right but shared a batch with one that was refused, and may not run a second time."""
    return ModelError(
        f"model {config.name!r} refused another request of the same batch, and as it is not idempotent this one was "
        "not run again"
    )


def _again(
    executor: Executor, config: ModelConfig, requests: list[InferenceRequest], stamps: BatchStamps
) -> list[Outcome]:
    """Run those of `requests` again for which an answer can still come in time."""
    now = monotonic_ns()
    alive = [request for request in requests if request.state is RequestState.EXECUTING]
    late = [request for request in alive if request.deadline <= now]
    outcomes = []
    if late:
        outcomes.append(Outcome(_part(late), stamps, (), DeadlineExceeded("the deadline passed while running")))
    due = [request for request in alive if request.deadline > now]
    if due:
        outcomes += execute(executor, config, _part(due))
    return outcomes


def _part(requests: list[InferenceRequest]) -> Batch:
    return Batch(requests, sum([request.rows for request in requests]), ReleaseReason.RETRY)


def _holder(requests: list[InferenceRequest], row: int) -> InferenceRequest | None:
    """The request that holds row `row` of the batch."""
    for request in requests:
        if row < request.rows:
            return request if row >= 0 else None
        row -= request.rows
    return None
