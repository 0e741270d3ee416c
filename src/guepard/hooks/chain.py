"""The steps around one model, joined: what callers see, and what the model takes and gives."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from guepard.core.errors import LoadError
from guepard.core.hooks import StepSpec
from guepard.core.tensor import TensorSpec
from guepard.hooks.base import PostStep, PreStep, Tensors
from guepard.hooks.registry import make_post_step, make_pre_step


class PreChain:
    """From what a request holds, `takes`, to what the model takes, `wanted`. Raises: LoadError that names the step."""

    def __init__(self, specs: Sequence[StepSpec], folder: Path, wanted: Sequence[TensorSpec]) -> None:
        self.names = step_names(specs)
        self._steps: list[PreStep] = [make_pre_step(spec, folder) for spec in specs]
        takes = tuple(wanted)
        for name, step in reversed(list(zip(self.names, self._steps, strict=True))):
            takes = _sound(f"preprocess.{name}", step.before(takes))
        self.takes = takes

    def run(self, tensors: Tensors, spent_ns: list[int]) -> Tensors:
        """What the model takes of one request. Adds to `spent_ns`, in the order of `names`, how long each step took.

        Raises: InputError. Called from several threads at once.
        """
        for place, step in enumerate(self._steps):
            started = perf_counter_ns()
            tensors = step.run(tensors)
            spent_ns[place] += perf_counter_ns() - started
        return tensors


class PostChain:
    """From what the model gives to what requests are answered with, `gives`. Raises: LoadError that names the step."""

    def __init__(
        self, specs: Sequence[StepSpec], folder: Path, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]
    ) -> None:
        self.names = step_names(specs)
        self._steps: list[PostStep] = [make_post_step(spec, folder) for spec in specs]
        gives = tuple(given)
        for name, step in zip(self.names, self._steps, strict=True):
            gives = _sound(f"postprocess.{name}", step.after(gives, inputs))
        self.gives = gives

    def run(self, outputs: Tensors, inputs: Tensors, spent_ns: list[int]) -> Tensors:
        """The answers of one batch. `spent_ns` as PreChain has it."""
        for place, step in enumerate(self._steps):
            started = perf_counter_ns()
            outputs = step.run(outputs, inputs)
            spent_ns[place] += perf_counter_ns() - started
        return outputs


def step_names(specs: Sequence[StepSpec]) -> tuple[str, ...]:
    """Each step by its kind; the second of a kind is `cast_2`."""
    kinds = [spec.kind for spec in specs]
    counts = [kinds[: place + 1].count(kind) for place, kind in enumerate(kinds)]
    return tuple([kind if count == 1 else f"{kind}_{count}" for kind, count in zip(kinds, counts, strict=True)])


def _sound(where: str, specs: Sequence[Any]) -> tuple[TensorSpec, ...]:
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise LoadError(f"{where}: two tensors would be called {name!r}; give one of them another name")
    return tuple(specs)
