"""A copy of a model that executes one batch at a time: on the event loop, or on a thread of its own."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from time import monotonic_ns
from typing import Protocol

from guepard.backends.base import Executor, Outputs
from guepard.batching.dynamic_batcher import Batch
from guepard.core.buffers import BufferPool
from guepard.core.errors import GuepardError
from guepard.core.model_config import ModelConfig
from guepard.core.phases import BatchStamps
from guepard.engine.execution import Outcome, execute, execute_stream

log = logging.getLogger(__name__)


class InstanceOwner(Protocol):
    """Who is told of results, always on the event loop's thread."""

    def executed(self, instance: "Instance", batch: Batch, outcomes: list[Outcome]) -> None:
        """`batch` is done and `instance` free."""
        ...

    def lost(self, instance: "Instance", batch: Batch) -> None:
        """A fault of the engine's own kept `batch` from being executed; `instance` is free."""
        ...

    def instance_lost(self, instance: "Instance") -> None:
        """`instance`, which may be idle, is not fit any more."""
        ...

    def instance_mended(self, instance: "Instance") -> None:
        """`instance` is fit again and free."""
        ...

    def instance_down(self, instance: "Instance", reason: str) -> None:
        """`instance` could not be mended, and tries again."""
        ...

    def streamed(self, batch: Batch, outputs: Outputs) -> None:
        """One more response of a decoupled model."""
        ...

    def stream_ended(self, instance: "Instance", batch: Batch, stamps: BatchStamps, error: GuepardError | None) -> None:
        """The last response has been given and `instance` is free."""
        ...


class Instance(ABC):
    """One executor and where it runs. `start` is called on the event loop, for one batch at a time.

    `buffers` is the server's memory pool, for very large batches.
    """

    def __init__(
        self, executor: Executor, config: ModelConfig, owner: InstanceOwner, buffers: BufferPool | None = None
    ) -> None:
        self._executor = executor
        self._config = config
        self._owner = owner
        self._buffers = buffers

    @property
    def own_buffers(self) -> BufferPool | None:
        """The memory pool that belongs to this instance."""
        return self._executor.buffers

    @property
    def is_fit(self) -> bool:
        """Whether it can execute. One that cannot is to `mend`."""
        return True

    @property
    def pause_ns(self) -> int:
        """How long one that is being mended pauses before its next attempt."""
        return 0

    @abstractmethod
    def start(self, batch: Batch) -> None: ...

    def mend(self) -> None:
        """Become fit again. Returns at once; the owner is told of the outcome."""
        raise AssertionError(f"{type(self).__name__} is always fit")

    def terminate(self) -> None:
        """Nobody waits for the batch that was started last: end its execution early where that is possible.

        The owner is told of the end as of any other, and only then may the next batch be started.
        """
        self._executor.terminate()

    @abstractmethod
    def stop(self) -> None:
        """No batch follows. A batch that still runs ends first, then the executor is closed."""

    @abstractmethod
    def join(self, timeout_s: float) -> bool:
        """Wait for the end after `stop`. Blocks. False when it did not come in time."""


class InlineInstance(Instance):
    """Executes on the event loop's own thread: right for models that take less time than a hand-over would."""

    def start(self, batch: Batch) -> None:
        self._owner.executed(self, batch, execute(self._executor, self._config, batch, self._buffers))

    def stop(self) -> None:
        """Nothing runs between batches. The executor is closed by `join`, beside the loop: user code may take long."""

    def join(self, timeout_s: float) -> bool:
        self._executor.close()
        return True


class ThreadInstance(Instance):
    """Executes on a thread of its own. `post` runs a callback on the event loop from another thread.

    `share` is held while a batch runs: what it takes of the CPUs.
    """

    def __init__(
        self,
        executor: Executor,
        config: ModelConfig,
        owner: InstanceOwner,
        post: Callable[..., object],
        number: int,
        share: AbstractContextManager[None] | None = None,
        buffers: BufferPool | None = None,
    ) -> None:
        super().__init__(executor, config, owner, buffers)
        self._post = post
        self._share = share or nullcontext()
        self._jobs: SimpleQueue[Batch | Callable[[], None] | None] = SimpleQueue()
        # A daemon: a model that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name=f"{config.name}-{number}", daemon=True)
        self._thread.start()

    def start(self, batch: Batch) -> None:
        self._jobs.put(batch)

    def stop(self) -> None:
        self._jobs.put(None)

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _do(self, job: Callable[[], None]) -> None:
        """Have the thread do something between two batches. What it raises is logged."""
        self._jobs.put(job)

    def _work(self) -> None:
        run = self._stream if self._config.decoupled else self._run
        while (job := self._jobs.get()) is not None:
            try:
                if isinstance(job, Batch):
                    run(job)
                else:
                    job()
            except BaseException:  # the thread outlives it: a dead one would leave every later request waiting
                log.exception("an execution of model %s was lost", self._config.name)
                if isinstance(job, Batch):
                    self._tell(self._owner.lost, self, job)
            job = None  # what was executed is not kept alive by whoever waits for the next
        self._executor.close()

    def _run(self, batch: Batch) -> None:
        with self._share:
            outcomes = execute(self._executor, self._config, batch, self._buffers)
        self._tell(self._owner.executed, self, batch, outcomes)

    def _stream(self, batch: Batch) -> None:
        failure: GuepardError | None = None
        stamps = BatchStamps()
        stamps.compute_start = stamps.compute_input_end = monotonic_ns()
        try:
            for outputs in execute_stream(self._executor, self._config, batch):
                self._tell(self._owner.streamed, batch, outputs)
        except GuepardError as error:
            failure = error
        stamps.compute_output_start = stamps.compute_end = monotonic_ns()
        self._tell(self._owner.stream_ended, self, batch, stamps, failure)

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            self._post(callback, *arguments)
        except RuntimeError:
            return  # the loop has closed: the server is gone, and so is whoever waited for this answer
