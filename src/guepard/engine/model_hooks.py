"""One model and the steps around it: two signatures, and executors that end with the steps after the model."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from guepard.backends.base import Executor, Inputs, Outputs
from guepard.core.buffers import BufferPool
from guepard.core.errors import GuepardError, LoadError
from guepard.core.hooks import Hooks
from guepard.core.model_config import ModelDescription
from guepard.core.request import InferenceRequest
from guepard.core.tensor import Array, TensorSpec
from guepard.engine.warmup import Timing, Warmup, run_sample, samples
from guepard.hooks.chain import PostChain, PreChain
from guepard.telemetry.step_durations import StepDurations

log = logging.getLogger(__name__)


class ModelHooks:
    """`inputs` and `outputs` are what callers see; `description` is the model as batches meet it: it takes its own
    inputs and gives what the last step makes of its outputs.

    A model without batches is taken row by row along the first dimension of its tensors, as steps know nothing else.
    Raises: LoadError for steps that do not fit the model or one another.
    """

    def __init__(self, hooks: Hooks, folder: Path, model: ModelDescription) -> None:
        if hooks and model.decoupled:
            raise LoadError(
                "preprocess and postprocess: the model streams its answers, around which no steps can stand; remove "
                "them, or do the same within the model"
            )
        self._model = model
        self._batched = model.max_batch_size > 0
        inputs = self._rows_of("preprocess", model.inputs) if hooks else model.inputs
        self.after: PostChain | None = None
        rides: tuple[TensorSpec, ...] = ()
        if hooks.postprocess:
            outputs = self._rows_of("postprocess", model.outputs)
            self.after = PostChain(hooks.postprocess, folder, outputs, inputs)
            rides = self.after.rides
        self.before = PreChain(hooks.preprocess, folder, (*inputs, *rides)) if hooks.preprocess else None
        taken = (*model.inputs, *self._whole(rides))
        self.inputs = self._whole(self.before.takes) if self.before else taken
        self.outputs = self._whole(self.after.gives) if self.after else model.outputs
        self.description = replace(model, inputs=taken, outputs=self.outputs)
        names = [*(self.before.names if self.before else ()), *(self.after.names if self.after else ())]
        self.durations = StepDurations(names) if names else None

    def around(self, executor: Executor) -> Executor:
        """`executor` with the steps after the model, where there are some."""
        if self.after is None or self.durations is None:
            return executor
        return HookedExecutor(executor, self._model, self.description, self.after, self.durations)

    def warmed(self, executor: Executor, warmup: Warmup) -> Warmup:
        """`warmup` of the bare `executor`, with what the steps after the model take.

        Raises: LoadError when they break on a sample, or do not give what they declare.
        """
        timing = warmup.timing
        if self.after is None or timing is None:
            return warmup
        full = max(1, self._model.max_batch_size)
        costs = [self._cost(executor, rows, warmup.free_size) for rows in sorted({1, full})]
        return warmup._replace(timing=Timing(timing.one + costs[0], timing.full + costs[-1]))

    def _cost(self, executor: Executor, rows: int, free_size: int) -> int:
        """How long the steps after the model take for a sample, in nanoseconds."""
        assert self.after is not None
        model = self._model
        given = run_sample(executor, model, rows, free_size)
        inputs = samples(self.description, rows, free_size)
        best = 0
        for _ in range(2):  # the first run makes things ready
            started = perf_counter_ns()
            try:
                answers = _apply(self.after, self.description, model, given, inputs, [0] * len(self.after.names))
            except GuepardError as error:  # what a model makes of zeros need not be sound
                log.warning("postprocess: a warm-up sample of zeros failed: %s", error.message)
                return 0
            except Exception as error:
                log.exception("a step after the model failed at warm-up")
                raise LoadError(f"postprocess: a sample of zeros failed: {type(error).__name__}") from error
            best = perf_counter_ns() - started
        for spec, answer in zip(self.after.gives, answers, strict=True):
            self._check(spec, answer)
        return best

    def _check(self, spec: TensorSpec, answer: Array) -> None:
        dims = answer.shape[1:]
        fits = len(dims) == len(spec.dims) and all(
            want in (-1, have) for want, have in zip(spec.dims, dims, strict=True)
        )
        if not fits or answer.dtype != spec.datatype.dtype:
            raise LoadError(
                f"postprocess: output {spec.name!r} came as {answer.dtype} {list(answer.shape)} where the steps "
                f"declare {spec.datatype.name} {[-1, *spec.dims]}"
            )

    def _rows_of(self, field: str, specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Declarations without their first dimension, which is that of rows whatever the model calls it."""
        if self._batched:
            return tuple(specs)
        for spec in specs:
            if not spec.dims:
                raise LoadError(f"{field}: tensor {spec.name!r} is a scalar, and steps need a dimension of rows")
        return tuple([TensorSpec(spec.name, spec.datatype.name, spec.dims[1:], spec.optional) for spec in specs])

    def _whole(self, specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """The reverse of `_rows_of`. All tensors of a model without batches have the rows of its first input."""
        if self._batched:
            return tuple(specs)
        known = {spec.name: spec.dims[0] for spec in (*self._model.inputs, *self._model.outputs) if spec.dims}
        first = next((spec.dims[0] for spec in self._model.inputs if spec.dims), -1)
        return tuple(
            [
                TensorSpec(spec.name, spec.datatype.name, (known.get(spec.name, first), *spec.dims), spec.optional)
                for spec in specs
            ]
        )


class HookedExecutor:
    """An executor of `model`, and after it the steps `after`; `whole` is both together."""

    def __init__(
        self,
        bare: Executor,
        model: ModelDescription,
        whole: ModelDescription,
        after: PostChain,
        durations: StepDurations,
    ) -> None:
        self.bare = bare
        self._model = model
        self._whole = whole
        self._own = len(model.inputs)
        self._after = after
        self._durations = durations

    @property
    def buffers(self) -> BufferPool | None:
        return self.bare.buffers

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        spent_ns = [0] * len(self._after.names)
        outputs = self.bare.execute(inputs[: self._own], requests)
        answers = _apply(self._after, self._whole, self._model, outputs, inputs, spent_ns)
        self._durations.record(self._after.names, spent_ns)
        return answers

    def execute_stream(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Iterator[Outputs]:
        raise AssertionError("no steps stand around a model that streams its answers")

    def terminate(self) -> None:
        self.bare.terminate()

    def close(self) -> None:
        self.bare.close()


def _apply(
    after: PostChain,
    whole: ModelDescription,
    model: ModelDescription,
    outputs: Outputs,
    inputs: Inputs,
    spent_ns: list[int],
) -> list[Array]:
    given = {spec.name: output for spec, output in zip(model.outputs, outputs, strict=True)}
    taken = {spec.name: array for spec, array in zip(whole.inputs, inputs, strict=True) if array is not None}
    answers = after.run(given, taken, spent_ns)
    # What writes answers wants the elements of each one after the other.
    return [np.ascontiguousarray(answers[spec.name]) for spec in after.gives]
