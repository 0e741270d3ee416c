"""`guepard.load`: a model in this process, without sockets, behind the same data plane as a server's."""

import asyncio
import atexit
import math
import os
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Any

from numpy.typing import ArrayLike

from guepard.core.errors import ConfigurationError, InputError, NotReady, Unsupported
from guepard.core.request import InferenceRequest
from guepard.core.response import ResponseSender
from guepard.core.tensor import Array, Tensor, TensorSpec
from guepard.embedding.arguments import ModelArgument, read_models
from guepard.embedding.call import AsyncCall, BlockingCall, Call
from guepard.embedding.loop_thread import Ended, LoopThread
from guepard.embedding.tensors import to_own_array, to_tensor
from guepard.engine.control_plane import ControlPlane
from guepard.engine.memory_watch import MemoryWatch
from guepard.engine.served_model import ServedModel
from guepard.protocols import oip_metadata
from guepard.protocols.oip_parameters import apply_parameters, is_whole
from guepard.protocols.oip_parameters import priority as checked_priority
from guepard.server.app import Classes, build_engine
from guepard.settings.model_options import ModelOptions
from guepard.settings.options import Settings
from guepard.settings.resolve import resolve_in_program
from guepard.settings.section import merge, section_of

_SECOND_NS = 1_000_000_000
_LONGEST_S = 1e9


def load(model: "ModelArgument", *, cache_dir: str | os.PathLike[str] | None = None, **options: Any) -> "LocalModel":
    """Load a model into this process and return it, warmed up and ready to be asked. No port is opened.

        import guepard

        model = guepard.load("classifier.onnx")
        answer = model.infer({"x": [[5.1, 3.5, 1.4]]})  # {"y": array(...)}
        model.close()

    `model` is an ONNX file or a model folder (text or a Path), "NAME=PATH", "module.py:Class", or a subclass of
    `guepard.Model`. A class is the program's own code and runs; a folder that holds code needs `trust=True`.

    `options` are those of a model in guepard.yaml, by name and with the same values, for instance
    `max_batch_size=32`, `timeout={"default": "2s"}`, `dynamic_batching={"max_queue_delay": "2ms"}`,
    `parameters={"factor": 3}`. Environment variables and files say nothing here.

    `cache_dir` is a folder for what is worth keeping between runs, such as weights made ready for sharing: by default
    the server's, `guepard` in $XDG_CACHE_HOME or in ~/.cache; "none" keeps nothing.

    The model may be asked from any number of threads, whose requests are joined into batches. Used in a `with` block
    it is closed at the end of it.

    Raises: ConfigurationError for what cannot be meant, LoadError for a model that cannot be loaded.
    """
    folder = Path.cwd()
    arguments, labels, classes = read_models(model, folder)
    if len(arguments.models) != 1 or isinstance(model, list | tuple | Mapping):
        raise ConfigurationError("model: load() takes one model; guepard.serve takes several, and repositories")
    said = section_of(ModelOptions).read(options, "")
    arguments.models[0] = merge(arguments.models[0], said)
    folder_name = os.fspath(cache_dir) if isinstance(cache_dir, os.PathLike) else cache_dir
    server = {} if folder_name is None else {"cache_dir": folder_name}
    settings = resolve_in_program(arguments, labels, options=server, config=None, environment={}, folder=folder)
    return LocalModel(settings, classes)


class LocalModel:
    """A loaded model. `guepard.load` makes it; every method may be called from any thread.

    It is closed by `close`, at the end of a `with` block, when nobody refers to it any more, or at exit.
    """

    def __init__(self, settings: Settings, classes: Classes) -> None:
        name = settings.models[0].name
        self._loop = _ModelThread(name, settings.server.drain_timeout / _SECOND_NS)
        try:
            self._served = self._loop.run(self._loop.loaded(settings, classes))
        except BaseException:
            self._loop.end_at_once()
            raise
        self._specs = {spec.name: spec for spec in self._served.config.inputs}
        weakref.finalize(self, self._loop.end_soon).atexit = False
        atexit.register(self._loop.end_at_once)

    def infer(
        self,
        inputs: Mapping[str, ArrayLike],
        *,
        outputs: Iterable[str] | None = None,
        parameters: Mapping[str, str | bool | int | float] | None = None,
        timeout: float | None = None,
        priority: int = 0,
        id: str | None = None,  # noqa: A002 - the protocol's word
    ) -> dict[str, Array]:
        """Ask the model and wait for its answer.

            model.infer({"x": np.zeros((2, 3), np.float32)}, outputs=["y"], timeout=0.5)

        `inputs` are arrays, nested lists or numbers by name, with the batch as their first dimension where the model
        has one. The model's datatype decides: integers must fit it, numbers for floating-point inputs are rounded to
        nearest and must not become infinite, BYTES take bytes and str, BF16 also uint16 bit patterns and ml_dtypes.
        `outputs` names those wanted, None for all. `timeout` is in seconds, `priority` 1 (highest) to 3. `parameters`
        and `id` are told to models in Python.

        Returns arrays of the caller's own by name. BYTES are objects of type bytes, BF16 come as float32.

        Raises: InputError, DeadlineExceeded, QueueFull, ModelError (the model's own exception is its `__cause__`),
            NotReady once closed, Unsupported for a model that gives several answers to one request.
        """
        if self._loop.is_here:
            raise Unsupported("infer() was called on the model's own event loop, where nothing could answer it")
        call = BlockingCall()
        request = self._request(call, inputs, outputs, parameters, timeout, priority, id)
        self._post(request)
        try:
            call.wait()
        except BaseException:  # an interrupt
            self._cancel(call, request)
            raise
        return self._answer(call, request)

    async def infer_async(
        self,
        inputs: Mapping[str, ArrayLike],
        *,
        outputs: Iterable[str] | None = None,
        parameters: Mapping[str, str | bool | int | float] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the engine keeps it
        priority: int = 0,
        id: str | None = None,  # noqa: A002 - the protocol's word
    ) -> dict[str, Array]:
        """As `infer`, for asyncio code on any event loop.

            answers = await asyncio.gather(*[model.infer_async({"x": row}) for row in rows])

        A task that is cancelled takes its request along: one that waits costs no execution. Arrays that were passed
        must not be changed until the answer is there.
        """
        call = AsyncCall()
        request = self._request(call, inputs, outputs, parameters, timeout, priority, id)
        self._post(request)
        try:
            await call.wait()
        except BaseException:  # the task was cancelled
            self._cancel(call, request)
            raise
        return self._answer(call, request)

    @property
    def name(self) -> str:
        return self._served.config.name

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What the model takes: `name`, `datatype`, `dims` without the batch dimension, `optional`."""
        return self._served.config.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What the model gives."""
        return self._served.config.outputs

    @property
    def metadata(self) -> dict[str, Any]:
        """What `GET /v2/models/NAME` of a server answers."""
        config = self._served.config
        return oip_metadata.model_metadata(config, [config.version])

    @property
    def config(self) -> dict[str, Any]:
        """What `GET /v2/models/NAME/config` of a server answers: batches, instances, time-outs as they are in force."""
        return oip_metadata.model_config(self._served.config)

    def close(self) -> None:
        """Answer what was asked, then let go of the model, its memory and its threads. May be called again."""
        self._loop.end_at_once()

    def __enter__(self) -> "LocalModel":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed " if self._loop.has_ended else ""
        return f"<{state}guepard model {self.name!r}: {list(self.inputs)} -> {list(self.outputs)}>"

    def _request(
        self,
        sender: ResponseSender,
        inputs: Mapping[str, ArrayLike],
        outputs: Iterable[str] | None,
        parameters: Mapping[str, str | bool | int | float] | None,
        timeout: float | None,
        priority: int,
        request_id: str | None,
    ) -> InferenceRequest:
        if not isinstance(inputs, Mapping):
            raise InputError(f"inputs: expected arrays by name, as in {{'x': array}}, got {type(inputs).__name__}")
        request = InferenceRequest([self._tensor(name, inputs[name]) for name in inputs], sender, monotonic_ns())
        if outputs is not None:
            request.requested_outputs = _names(outputs)
        if parameters is not None:
            apply_parameters(request, _by_name(parameters))
        if timeout is not None:
            request.timeout_ns = _nanoseconds(timeout)
        if priority:
            if not is_whole(priority) or priority < 0:
                raise InputError(f"priority: expected 0 (the default) to 3, 1 being the highest, got {priority!r}")
            request.priority = checked_priority("priority", priority)
        if request_id is not None:
            if not isinstance(request_id, str):
                raise InputError(f"id: expected text, got {request_id!r}")
            request.id = request_id
        return request

    def _tensor(self, name: str, value: Any) -> Tensor:
        spec = self._specs.get(name)
        if spec is None:
            known = ", ".join(map(repr, self._specs))
            raise InputError(f"input {name!r} is no input of model {self.name!r}; it has {known}")
        return to_tensor(spec, value)

    def _post(self, request: InferenceRequest) -> None:
        try:
            self._loop.post(self._served.infer, request)
        except Ended:
            raise NotReady(
                f"model {self.name!r} is closed, or was loaded before this process was forked; load it here"
            ) from None

    def _cancel(self, call: Call, request: InferenceRequest) -> None:
        def cancel() -> None:
            if not call.is_answered:
                self._served.cancel(request)

        try:
            self._loop.post(cancel)
        except Ended:
            return  # the end answers or drops whatever is left

    def _answer(self, call: Call, request: InferenceRequest) -> dict[str, Array]:
        arrays = call.outputs()
        specs = self._served.config.outputs
        if request.requested_outputs is None:
            return {spec.name: to_own_array(spec, array) for spec, array in zip(specs, arrays, strict=True)}
        by_name = {spec.name: (spec, array) for spec, array in zip(specs, arrays, strict=True)}
        return {name: to_own_array(*by_name[name]) for name in request.requested_outputs}


class _ModelThread(LoopThread):
    """The loop that a model's requests meet on, and the engine that lives there. Knows nothing of the LocalModel,
    which can therefore go when the program lets go of it.
    """

    def __init__(self, name: str, drain_timeout_s: float) -> None:
        self._drain_timeout_s = drain_timeout_s
        self._control_plane: ControlPlane | None = None
        self._watch: asyncio.Task[None] | None = None  # ends with the loop
        super().__init__(f"guepard-{name}")

    async def loaded(self, settings: Settings, classes: Classes) -> ServedModel:
        """Raises: LoadError."""
        _, data_plane, self._control_plane = build_engine(settings, classes, on_change=lambda served, serving: None)
        failures = await self._control_plane.start(None)
        if failures:
            raise failures[0]
        self._watch = asyncio.ensure_future(MemoryWatch(data_plane).run())
        return data_plane.lookup(settings.models[0].name)

    def end_at_once(self) -> None:
        """Returns when the model is gone."""
        atexit.unregister(self.end_at_once)
        self.end(self._close)

    def end_soon(self) -> None:
        """For a finaliser, which may run anywhere and must not wait."""
        atexit.unregister(self.end_at_once)
        self.end(self._close, wait=False)

    async def _close(self) -> None:
        if self._control_plane is not None:
            await self._control_plane.stop(self._drain_timeout_s)


def _names(outputs: Iterable[str]) -> tuple[str, ...]:
    names = None if isinstance(outputs, str) or not isinstance(outputs, Iterable) else tuple(outputs)
    if names is None or not all(isinstance(name, str) for name in names):
        raise InputError(f"outputs: expected a list of names, got {outputs!r}")
    return names


def _by_name(parameters: Mapping[str, str | bool | int | float]) -> Mapping[str, str | bool | int | float]:
    if not isinstance(parameters, Mapping) or not all(isinstance(key, str) for key in parameters):
        raise InputError(f"parameters: expected values by name, as in {{'top': 5}}, got {parameters!r}")
    return parameters


def _nanoseconds(timeout: float) -> int:
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not math.isfinite(timeout) or not 0 < timeout < _LONGEST_S:
        raise InputError(f"timeout: expected seconds above 0, got {timeout!r}")
    return max(1, int(timeout * _SECOND_NS))
