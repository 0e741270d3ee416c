"""A model in this process as a target: its inputs made ready, and inferences submitted from the driver's thread."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from guepard.bench.load_plans import rows_of
from guepard.bench.targets.model_metadata import ModelMetadata, from_oip
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.bench.targets.random_tensors import random_tensor
from guepard.bench.targets.sample_files import JSON_SUFFIXES, data_files
from guepard.bench.targets.tensor_call import TensorCall
from guepard.bench.targets.tensor_samples import oip_calls, read_calls
from guepard.bench.targets.tensor_shapes import plan_shapes
from guepard.core.errors import ConfigurationError, DeadlineExceeded
from guepard.core.tensor import Array
from guepard.measure.load.in_process_client import Done
from guepard.measure.load.outcomes import End
from guepard.measure.load.plan import Endpoint, Payload, ReplyRule
from guepard.measure.results import Target
from guepard.settings.bench_options import BenchOptions

_CORPUS = 256

Inputs = dict[str, Array]


class AskedModel(Protocol):
    """As `guepard.load` returns it."""

    @property
    def name(self) -> str: ...

    @property
    def metadata(self) -> dict[str, Any]: ...

    def infer_async(self, inputs: Mapping[str, Array], *, timeout: float | None) -> Awaitable[object]: ...


OpenModel = Callable[[str, bool], AbstractContextManager[AskedModel]]
"""Loads MODEL; the second argument lets code in its folder run. Raises: ConfigurationError, LoadError."""


def prepare_model(model: AskedModel, options: BenchOptions) -> tuple[PreparedTarget, list[Inputs]]:
    """The target, and the inputs of each of its payloads. Raises: ConfigurationError."""
    notes: list[str] = []
    described = from_oip(model.name, model.metadata)
    data = options.request.data
    calls = _samples(data, described, options, notes) if data else _generated(described, options, notes)
    inputs = [{tensor.name: tensor.array for tensor in call.tensors} for call in islice(calls, _CORPUS)]
    if not inputs:
        raise ConfigurationError(f"--data {data}: no samples in it")
    digest = sha256()
    for each in inputs:
        for name in sorted(each):
            digest.update(name.encode())
            digest.update(repr(each[name].tolist()).encode() if each[name].dtype == object else each[name].tobytes())
    prepared = PreparedTarget(
        endpoint=Endpoint(protocol="http", host="in-process", port=0),
        payloads=(Payload(data=b""),) * len(inputs),
        reply=ReplyRule(),
        target=Target(
            url=f"in-process:{options.target}",
            protocol="in-process",
            model=model.name,
            model_version=described.version,
            server=None,
            same_machine=True,
        ),
        source=f"samples in {data}" if data else f"random values by seed {options.load.seed}",
        sha256=digest.hexdigest(),
        notes=tuple(notes),
    )
    return prepared, inputs


def _generated(model: ModelMetadata, options: BenchOptions, notes: list[str]) -> Iterator[TensorCall]:
    planned = plan_shapes(model.inputs, rows_of(options), options.request.shape)
    notes += planned.notes
    for number in range(_CORPUS):
        random = np.random.default_rng((options.load.seed, number))
        yield TensorCall(
            "random values",
            [random_tensor(random, one.name, one.datatype, planned.shapes[one.name], number) for one in model.inputs],
        )


def _samples(data: str, model: ModelMetadata, options: BenchOptions, notes: list[str]) -> Iterator[TensorCall]:
    for path in map(Path, data_files(data)):
        if path.suffix in JSON_SUFFIXES:
            yield from oip_calls(path, model)
        else:
            yield from read_calls(path, model, rows_of(options), notes)


class ModelCaller:
    """Submits inferences from any thread, through an event loop on a thread of its own, from entry to exit."""

    def __init__(self, model: AskedModel, inputs: Sequence[Inputs], timeout_s: float) -> None:
        self._model = model
        self._inputs = inputs
        self._timeout_s = timeout_s
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> "ModelCaller":
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-caller", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._give_up(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _give_up(self) -> None:
        """Inferences that were abandoned may still go on."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def submit(self, payload: int, done: Done) -> None:
        self._loop.call_soon_threadsafe(self._begin, payload, done)

    def _begin(self, payload: int, done: Done) -> None:
        task = self._loop.create_task(self._infer(payload, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _infer(self, payload: int, done: Done) -> None:
        try:
            await self._model.infer_async(self._inputs[payload], timeout=self._timeout_s)
        except DeadlineExceeded:
            done(End.TIMED_OUT)
        except Exception:
            done(End.FAILED)
        else:
            done(End.DONE)
