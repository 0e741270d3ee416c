"""Shapes to send to a model whose dimensions are partly free."""

import re
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from guepard.bench.targets.model_metadata import InputMetadata
from guepard.core.errors import ConfigurationError

FREE_DIM = 16
"""What a free dimension that nobody named is taken as: all alike, for inputs often share one."""

_MAX_ELEMENTS = 2**26
_OPTION = re.compile(r"(?P<name>.+):(?P<dims>\d{1,9}(?:,\d{1,9})*)")


class PlannedShapes(NamedTuple):
    """The shape of each input by its name, and what was assumed."""

    shapes: dict[str, tuple[int, ...]]
    notes: tuple[str, ...]


def plan_shapes(inputs: Sequence[InputMetadata], batch: int, options: Sequence[str]) -> PlannedShapes:
    """A shape without free dimensions for each of `inputs`.

    `options` are `NAME:3,224`, of the whole rank or without the batch. Raises: ConfigurationError that names the
    option, the input and what it takes.
    """
    named = _read(inputs, options)
    if batch > 1 and not any(one.has_batch for one in inputs):
        first = inputs[0]
        raise ConfigurationError(
            f"--batch {batch}: input {first.name!r} has the shape {list(first.shape)}, whose first dimension is not "
            "free; leave --batch out"
        )
    shapes = {}
    notes = []
    for one in inputs:
        said = named.get(one.name)
        if said is not None:
            shape = _checked(one, said, batch)
        else:
            shape = tuple(_dim(one, index, batch) for index in range(len(one.shape)))
            free = [dim for dim in one.shape[one.has_batch :] if dim == -1]
            if free:
                dims = ",".join(map(str, shape[one.has_batch :]))
                notes.append(
                    f"input {one.name!r}: free dimensions are taken as {FREE_DIM}, shape {list(shape)}; "
                    f"say --shape {one.name}:{dims} to choose"
                )
        if prod(shape) > _MAX_ELEMENTS:
            raise ConfigurationError(
                f"input {one.name!r}: the shape {list(shape)} has more than {_MAX_ELEMENTS} elements; "
                "choose a smaller one with --shape or --batch"
            )
        shapes[one.name] = shape
    return PlannedShapes(shapes, tuple(notes))


def _read(inputs: Sequence[InputMetadata], options: Sequence[str]) -> dict[str, tuple[int, ...]]:
    names = [one.name for one in inputs]
    named = {}
    for option in options:
        match = _OPTION.fullmatch(option)
        if match is None:
            raise ConfigurationError(f"--shape {option}: expected NAME:DIMENSIONS such as {names[0]}:3,224")
        name = match["name"]
        if name not in names:
            raise ConfigurationError(f"--shape {option}: the model has no input {name!r}; it has {', '.join(names)}")
        named[name] = tuple(int(dim) for dim in match["dims"].split(","))
    return named


def _checked(one: InputMetadata, said: tuple[int, ...], batch: int) -> tuple[int, ...]:
    shape = said
    if one.has_batch and len(said) == len(one.shape) - 1:
        shape = (batch, *said)
    elif one.has_batch and batch != 1 and said[0] != batch:
        raise ConfigurationError(
            f"--shape {one.name}: a batch of {said[0]}, but --batch {batch}; leave the batch out of the shape"
        )
    if not one.fits(shape):
        raise ConfigurationError(
            f"--shape {one.name}:{','.join(map(str, said))}: the model takes {list(one.shape)}, where -1 is free"
        )
    return shape


def _dim(one: InputMetadata, index: int, batch: int) -> int:
    dim = one.shape[index]
    if dim != -1:
        return dim
    return batch if index == 0 else FREE_DIM
