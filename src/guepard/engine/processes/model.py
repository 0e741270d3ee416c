"""A model in processes of its own: one for each executor."""

from contextlib import suppress
from dataclasses import replace

from guepard.backends.base import ModelSource
from guepard.core.errors import InstanceLost
from guepard.core.model_config import ModelDescription
from guepard.engine.processes.executor import ProcessExecutor


class ProcessModel:
    """A LoadedModel whose code and weights are never in this process.

    `timeout_ns` 0: the larger of 5 s and 5 times the 99th percentile. Raises: LoadError.
    """

    def __init__(self, source: ModelSource, backend: str, timeout_ns: int, memory_limit_bytes: int) -> None:
        self._source = source
        self._backend = backend
        self._timeout_ns = timeout_ns
        self._memory_limit_bytes = memory_limit_bytes
        self._executors: list[ProcessExecutor] = []
        self._first: ProcessExecutor | None = self._start()
        self.description: ModelDescription = self._first.description

    def executor(self) -> ProcessExecutor:
        """Raises: LoadError."""
        first, self._first = self._first, None
        return first or self._start()

    def wide_executor(self) -> None:
        """None: how many threads an execution takes was settled with the number of processes."""

    def trim(self) -> None:
        for executor in self._executors:
            executor.trim()

    def health(self) -> None:
        """Ask the model in every process. One that was lost is being replaced and is asked afterwards."""
        for executor in self._executors:
            with suppress(InstanceLost):
                if not executor.is_lost:
                    executor.health()

    def close(self) -> None:
        executors, self._executors = self._executors, []
        for executor in executors:
            executor.close()

    def _start(self) -> ProcessExecutor:
        executor = ProcessExecutor(self._source, self._backend, self._timeout_ns, self._memory_limit_bytes)
        self._executors.append(executor)
        self._source = replace(self._source, again=True)
        return executor
