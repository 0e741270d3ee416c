"""One instance of a Python model and the calls into it."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from guepard.backends.base import Inputs, ModelSource, Outputs
from guepard.backends.private_loop import PrivateLoop
from guepard.backends.python_results import ResultReader
from guepard.core.errors import InputError, LoadError, ModelError
from guepard.core.model import Model, ModelContext, RequestInfo
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array

_LOGGER = logging.getLogger("guepard.backends.python")

# What user code may raise without ending the server. CancelledError and SystemExit are no Exceptions to Python.
_RAISED = (Exception, SystemExit, asyncio.CancelledError)


class PythonExecutor:
    """Owns the instance from `load` to `unload`. Methods that are `async def` run on a loop of the executor's own."""

    __slots__ = ("_batched", "_context", "_input_names", "_instance", "_loop", "_name", "_predict", "_reader")

    buffers = None

    def __init__(
        self, model_class: type[Model], description: ModelDescription, source: ModelSource, folder: Path
    ) -> None:
        self._name = source.name
        self._batched = description.max_batch_size > 0
        self._input_names = [spec.name for spec in description.inputs]
        self._reader = ResultReader(source.name, description.outputs, batched=self._batched)
        self._context = ModelContext(
            name=source.name,
            version=source.version,
            path=folder,
            parameters=source.policy.parameters,
            logger=logging.getLogger(f"guepard.models.{source.name}"),
            device="cpu",
            threads=source.threads,
        )
        self._loop = PrivateLoop(f"guepard-{source.name}") if _has_async_methods(model_class) else None
        self._instance: Model | None = None
        try:
            self._instance = model_class()
            self._call(self._instance.load, self._context)
        except _RAISED as error:
            self._log("loading", error)
            self._end_loop()
            what = f"load() of model {self._name!r} raised" if self._instance else f"{model_class.__name__}() raised"
            raise LoadError(f"{what} {type(error).__name__}; the server's log says more") from None
        self._predict: Callable[[dict[str, Array], ModelContext], Any] = self._instance.predict

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        rows = self._rows(inputs, requests)
        context = self._context
        context.requests = BatchRequests(requests)
        try:
            result = self._call(self._predict, self._named(inputs), context)
        except InputError:
            raise
        except _RAISED as error:
            raise self._failure(error) from error
        finally:
            context.requests = ()
        return self._reader.read(result, rows)

    def execute_stream(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Iterator[Outputs]:
        rows = self._rows(inputs, requests)
        self._context.requests = BatchRequests(requests)
        answers = self._answers(inputs)
        try:
            while True:
                try:
                    result = next(answers)
                except StopIteration:
                    return
                except InputError:
                    raise
                except _RAISED as error:
                    raise self._failure(error) from error
                yield self._reader.read(result, rows)
        finally:
            self._close_stream(answers)
            self._context.requests = ()

    def health(self) -> None:
        """Raises: whatever the model's own `health` raises."""
        if self._instance is not None:
            self._call(self._instance.health)

    @property
    def python_threads(self) -> Sequence[int]:
        """Those that run the model's methods, where the calling one does not."""
        return () if self._loop is None else (self._loop.thread,)

    def terminate(self) -> None:
        """Not possible: Python code ends when it will. It may ask whether its requests are cancelled."""

    def close(self) -> None:
        """Unload the instance, once. What `unload` raises is logged: the model is gone either way."""
        instance, self._instance = self._instance, None
        if instance is None:
            return
        try:
            self._call(instance.unload)
        except BaseException as error:  # an interrupt of the user's own must not leave the rest undone
            self._log("unloading", error)
        self._end_loop()

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        result = method(*arguments)
        if self._loop is not None and inspect.iscoroutine(result):
            return self._loop.run(result)
        return result

    def _answers(self, inputs: Inputs) -> Iterator[Any]:
        """The answers of one run, whichever of the three kinds of `predict` gives them."""
        result = self._predict(self._named(inputs), self._context)
        if self._loop is not None and inspect.isasyncgen(result):
            yield from self._loop.iterate(result)
        elif inspect.isgenerator(result):
            yield from result
        else:
            yield self._call(lambda: result)

    def _close_stream(self, answers: Iterator[Any]) -> None:
        """Let the generator's own `finally` run, now, also when the client has left half-way."""
        try:
            answers.close()  # type: ignore[attr-defined]
        except _RAISED as error:
            self._log("closing a stream", error)

    def _named(self, inputs: Inputs) -> dict[str, Array]:
        """The inputs by name, the model's own to write on: views on what a client sent are copied."""
        return {
            name: array if array.flags.writeable else array.copy()
            for name, array in zip(self._input_names, inputs, strict=True)
            if array is not None
        }

    def _rows(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> int:
        if not self._batched:
            return 1
        for array in inputs:
            if array is not None:
                return len(array)
        return sum(request.rows for request in requests)

    def _failure(self, error: BaseException) -> ModelError:
        """For callers; the engine logs the cause, of a model that fails always not every time."""
        return ModelError(f"model {self._name!r} failed: {type(error).__name__}")

    def _log(self, doing: str, error: BaseException) -> None:
        _LOGGER.error("model %s raised while %s", self._name, doing, exc_info=error)

    def _end_loop(self) -> None:
        if self._loop is not None:
            self._loop.close()


class BatchRequests(Sequence[RequestInfo]):
    """`ctx.requests`: built when a model first looks, since most never do."""

    __slots__ = ("_infos", "_requests")

    def __init__(self, requests: Sequence[InferenceRequest]) -> None:
        self._requests = requests
        self._infos: list[RequestInfo] | None = None

    @overload
    def __getitem__(self, index: int) -> RequestInfo: ...

    @overload
    def __getitem__(self, index: slice) -> list[RequestInfo]: ...

    def __getitem__(self, index: int | slice) -> RequestInfo | list[RequestInfo]:
        if self._infos is None:
            self._infos = self._build()
        return self._infos[index]

    def __len__(self) -> int:
        return len(self._requests)

    def _build(self) -> list[RequestInfo]:
        infos = []
        start = 0
        for request in self._requests:
            end = start + request.rows
            infos.append(RequestInfo(request, slice(start, end)))
            start = end
        return infos


def _has_async_methods(model_class: type[Model]) -> bool:
    methods = (model_class.load, model_class.predict, model_class.health, model_class.unload)
    return any(inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method) for method in methods)
