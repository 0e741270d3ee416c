"""Native steps around a model, as an operator or a format asks for them. What they do is in `guepard.hooks`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class StepSpec:
    """One named step: `kind` is one of `guepard.hooks.registry.STEP_NAMES`, `options` are that step's own.

    Plain data, so that it can be sent to a process and be part of a cache's key.
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hooks:
    """`preprocess` turns what a request holds into the model's inputs, before the request waits for a batch.
    `postprocess` turns the outputs of a batch into what requests are answered with. In this order."""

    preprocess: tuple[StepSpec, ...] = ()
    postprocess: tuple[StepSpec, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.preprocess or self.postprocess)
