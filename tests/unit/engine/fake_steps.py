"""Steps that do what a test tells them to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from guepard.core.hooks import Hooks, StepSpec
from guepard.core.model_config import ModelDescription
from guepard.core.tensor import Array, TensorSpec
from guepard.engine.model_hooks import ModelHooks
from guepard.hooks import registry
from guepard.hooks.base import Tensors

MODEL = ModelDescription(
    "test", "test", (TensorSpec("x", "FP32", [1]),), (TensorSpec("y", "FP32", [1]),), max_batch_size=8
)


class CallBefore:
    """Makes `x` of what `call` makes of it."""

    def __init__(self, folder: Path, call: Callable[[Array], Array], datatype: str = "FP32") -> None:
        self._call = call
        self._datatype = datatype

    def before(self, wanted: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        return tuple([TensorSpec(spec.name, self._datatype, spec.dims, spec.optional) for spec in wanted])

    def run(self, tensors: Tensors) -> Tensors:
        return {**tensors, "x": self._call(tensors["x"])}


class CallAfter:
    """Makes `y` of what `call` makes of it and of the inputs."""

    def __init__(self, folder: Path, call: Callable[[Array, Mapping[str, Array]], Array], **spec: Any) -> None:
        self._call = call
        self._spec = spec

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        return tuple(
            [TensorSpec(spec.name, **({"datatype": "FP32", "dims": spec.dims} | self._spec)) for spec in given]
        )

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        return {**outputs, "y": self._call(outputs["y"], inputs)}


@contextmanager
def fakes() -> Iterator[None]:
    """Within it the registry knows the steps `call`."""
    with (
        patch.dict(registry._PRE, call=(__name__, "CallBefore")),
        patch.dict(registry._POST, call=(__name__, "CallAfter")),
    ):
        yield


def before(call: Callable[[Array], Array], model: ModelDescription = MODEL, **options: Any) -> ModelHooks:
    with fakes():
        return ModelHooks(Hooks((StepSpec("call", {"call": call, **options}),)), Path(), model)


def after(
    call: Callable[[Array, Mapping[str, Array]], Array], model: ModelDescription = MODEL, **options: Any
) -> ModelHooks:
    with fakes():
        return ModelHooks(Hooks((), (StepSpec("call", {"call": call, **options}),)), Path(), model)
