"""Which engine executes a model, and in which precision."""

from typing import NamedTuple

from guepard.backends.base import ModelSource
from guepard.backends.registry import AUTO, ENGINES
from guepard.core.engine_options import Precision
from guepard.core.errors import LoadError


class EngineChoice(NamedTuple):
    """`backend` loads the model; `precision` None is the engine's own; `reason` completes "it was chosen: ..."."""

    backend: str
    precision: Precision | None
    reason: str


def choose_engine(source: ModelSource, backend: str) -> EngineChoice:
    """For models of `backend`: what the operator named, or the one that fits.

    Raises: LoadError for an engine that cannot execute the model.
    """
    asked = source.policy.engines
    engines = ENGINES.get(backend, ())
    if asked.engine == AUTO:
        return EngineChoice(backend, asked.precision, "" if not engines else "the reference engine")
    if asked.engine not in engines:
        possible = f"use one of {', '.join((AUTO, *engines))}" if engines else "remove it"
        raise LoadError(f"engine: {asked.engine!r} does not execute models of the {backend} backend; {possible}")
    return EngineChoice(asked.engine, asked.precision, "as configured")
