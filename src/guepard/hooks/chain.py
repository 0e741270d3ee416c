"""The steps around one model, joined: what callers see, and what the model takes and gives."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from guepard.core.errors import LoadError
from guepard.core.hooks import StepSpec
from guepard.core.tensor import TensorSpec
from guepard.hooks.base import JoinedSteps, PostStep, PreStep, Tensors
from guepard.hooks.registry import make_post_step, make_pre_step


class PreChain:
    """From what a request holds, `takes`, to what the model takes, `wanted`. Raises: LoadError that names the step."""

    def __init__(self, specs: Sequence[StepSpec], folder: Path, wanted: Sequence[TensorSpec]) -> None:
        self.names = step_names(specs)
        steps: list[PreStep] = [make_pre_step(spec, folder) for spec in specs]
        takes = tuple(wanted)
        for name, step in reversed(list(zip(self.names, steps, strict=True))):
            takes = _sound(f"preprocess.{name}", step.before(takes))
        self.takes = takes
        self._stages = _stages(steps)

    def run(self, tensors: Tensors, spent_ns: list[int]) -> Tensors:
        """What the model takes of one request. Adds to `spent_ns`, in the order of `names`, how long each step took.

        Raises: InputError. Called from several threads at once.
        """
        for place, stage in self._stages:
            tensors = stage.run_timed(tensors, spent_ns, place)
        return tensors


class _Plain:
    """A step by itself. A JoinedSteps."""

    def __init__(self, step: PreStep) -> None:
        self._step = step

    def run_timed(self, tensors: Tensors, spent_ns: list[int], place: int) -> Tensors:
        started = perf_counter_ns()
        tensors = self._step.run(tensors)
        spent_ns[place] += perf_counter_ns() - started
        return tensors


def _stages(steps: Sequence[PreStep]) -> list[tuple[int, JoinedSteps]]:
    """What is to be run, each with the place of its first step: the steps, neighbours joined where they want that."""
    stages: list[tuple[int, JoinedSteps]] = []
    place = 0
    while place < len(steps):
        join = getattr(steps[place], "joined", None) if place + 1 < len(steps) else None
        joined: JoinedSteps | None = None if join is None else join(steps[place + 1])
        stages.append((place, joined or _Plain(steps[place])))
        place += 1 if joined is None else 2
    return stages


class PostChain:
    """From what the model gives to what requests are answered with, `gives`. Raises: LoadError that names the step.

    `rides` are tensors that steps want to travel with each request, past the model.
    """

    def __init__(
        self, specs: Sequence[StepSpec], folder: Path, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]
    ) -> None:
        self.names = step_names(specs)
        self._steps: list[PostStep] = [make_post_step(spec, folder) for spec in specs]
        gives = tuple(given)
        self.rides = tuple(dict.fromkeys(spec for step in self._steps for spec in getattr(step, "rides", ())))
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
