"""An instance whose executor lives in a process: it gets a new process when one is lost."""

import logging
import threading
from collections.abc import Callable
from time import monotonic_ns

from guepard.backends.base import Executor
from guepard.core.errors import GuepardError, LoadError
from guepard.core.model_config import SECOND, ModelConfig
from guepard.engine.instance import InstanceOwner, ThreadInstance
from guepard.engine.processes.executor import ProcessExecutor

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 30.0
_PATIENCE_S = 1.0  # of callers: in a longer pause they are told to come again rather than left waiting
_CALM_NS = 60 * SECOND  # a process that lived so long was sound: the next one starts without a pause


class ProcessInstance(ThreadInstance):
    """Waits on a thread of this process for the answers of the other. `prepare` makes a new process ready.

    `around`: what batches are given to, where that is more than the process itself.
    """

    def __init__(
        self,
        executor: ProcessExecutor,
        config: ModelConfig,
        owner: InstanceOwner,
        post: Callable[..., object],
        number: int,
        prepare: Callable[[ProcessExecutor], None],
        around: Executor | None = None,
    ) -> None:
        self._process = executor
        self._number = number
        self._prepare = prepare
        self._pause_s = 0.0
        self._pause_end = 0
        self._mended_at = monotonic_ns()
        self._stopping = threading.Event()
        executor.on_loss = self._lost
        super().__init__(around or executor, config, owner, post, number)

    @property
    def is_fit(self) -> bool:
        return not self._process.is_lost

    @property
    def pause_ns(self) -> int:
        return max(0, self._pause_end - monotonic_ns())

    @property
    def process(self) -> ProcessExecutor:
        return self._process

    def mend(self) -> None:
        """Get a new process; the owner is told when it is there, and each time that this fails."""
        self._do(self._mend)

    def stop(self) -> None:
        self._stopping.set()
        super().stop()

    def join(self, timeout_s: float) -> bool:
        if super().join(timeout_s):
            return True
        self._process.abandon()
        return super().join(timeout_s)

    def _lost(self) -> None:
        self._tell(self._owner.instance_lost, self)

    def _mend(self) -> None:
        name, process = self._config.name, self._process
        if monotonic_ns() - self._mended_at > _CALM_NS:
            self._pause_s = 0.0
        failure = ""
        while process.is_lost and not self._stopping.is_set():
            log.warning(
                "model %s: the process of instance %d (pid %d) %s; starting another%s",
                name,
                self._number,
                process.pid,
                process.fate,
                f" in {self._pause_s:g} s" if self._pause_s else "",
            )
            self._pause_end = monotonic_ns() + int(self._pause_s * SECOND)
            if failure or self._pause_s > _PATIENCE_S:
                self._tell(self._owner.instance_down, self, failure or f"its process {process.fate}")
            if self._stopping.wait(self._pause_s):
                return
            self._pause_s = min(max(_FIRST_PAUSE_S, 2 * self._pause_s), _LONGEST_PAUSE_S)
            try:
                process.mend()
            except LoadError as error:
                log.error("model %s: instance %d has no process: %s", name, self._number, error)
                failure = str(error)
                continue
            failure = ""
            try:
                self._prepare(process)
            except GuepardError as error:  # as likely as not it was lost again
                log.warning("model %s: instance %d failed to warm up: %s", name, self._number, error)
        self._mended_at = monotonic_ns()
        self._tell(self._owner.instance_mended, self)
