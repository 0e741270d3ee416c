"""What a model of PyTorch computes in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from guepard.backends.base import ModelSource
from guepard.backends.pytorch_program import Program
from guepard.core.errors import LoadError


@dataclass(frozen=True, slots=True)
class Computing:
    """`casts`: outputs come in another type than is declared. `facts` are what else is to tell."""

    program: Program
    precision: str
    casts: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


def compute_in(torch: Any, program: Program, source: ModelSource) -> Computing:
    """Raises: LoadError for a precision that does not go."""
    if source.precision in (None, "f32"):
        return Computing(program, "f32")
    raise LoadError(f"precision: {source.precision} is not possible for models of PyTorch on this machine")
