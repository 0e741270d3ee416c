"""From what an operator and a model say of padding to what holds, or an error that names the field and the remedy."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from guepard.core.errors import LoadError
from guepard.core.model_config import ModelDescription
from guepard.core.padding import NO_BOUND, CutOutput, PaddedInput, Padding, PaddingRules
from guepard.core.tensor import TensorSpec
from guepard.protocols import brain_float

log = logging.getLogger(__name__)


def settle_padding(rules: PaddingRules, description: ModelDescription) -> Padding | None:
    """What `rules` amount to for the model; None: nothing is padded. Bounds that are unsaid are left open.

    Raises: LoadError.
    """
    if not rules.inputs:
        if rules.inputs is None:
            log.warning("padding.inputs: missing, and the model declares none, so nothing is padded; name its inputs")
        return None
    _check_use(rules, description)
    inputs = tuple(_padded_input(name, value, description.inputs) for name, value in rules.inputs.items())
    if all(description.inputs[each.place].optional for each in inputs):
        raise LoadError(
            "padding.inputs: all of them are optional, so a request may have no length; add one that is not"
        )
    outputs = tuple(_cut_output(name, axis, description.outputs) for name, axis in (rules.outputs or {}).items())
    buckets = rules.buckets or ()
    _check_buckets(buckets, rules.max_tokens)
    return Padding(
        inputs,
        outputs,
        buckets,
        NO_BOUND if rules.max_tokens is None else rules.max_tokens,
        NO_BOUND if rules.max_padding is None else rules.max_padding,
    )


def _check_use(rules: PaddingRules, description: ModelDescription) -> None:
    remedy = "remove padding" if rules.origin == "configuration" else "write padding: {inputs: {}} to do without"
    if description.decoupled:
        raise LoadError(f"padding: the model streams its answers, so each request runs alone; {remedy}")
    if not description.max_batch_size:
        raise LoadError(f"padding: max_batch_size is 0, so each request runs alone; raise it, or {remedy}")


def _padded_input(name: str, value: Any, specs: Sequence[TensorSpec]) -> PaddedInput:
    where = f"padding.inputs.{name}"
    index, spec = _find(name, where, "input", specs)
    free = [axis for axis, dim in enumerate(spec.dims) if dim == -1]
    if len(free) != 1:
        found = "no dimension of it is" if not free else f"{len(free)} dimensions of it are"
        raise LoadError(
            f"{where}: padding needs one free dimension beside the batch, and {found} free ({list(spec.dims)}); "
            "remove it from padding.inputs"
        )
    return PaddedInput(name, index, free[0] + 1, _fill(where, value, spec))


def _fill(where: str, value: Any, spec: TensorSpec) -> Any:
    """`value` as numpy holds it in arrays of `spec`."""
    datatype = spec.datatype
    if datatype.kind == "bytes":
        raise LoadError(f"{where}: {datatype.name} has no number to fill up with; remove it from padding.inputs")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LoadError(f"{where}: must be a number, got {value!r}")
    if datatype.name == "BF16":
        return brain_float.from_float32(np.array([value], np.float32))[0]
    dtype = datatype.dtype
    if datatype.kind == "float":
        with np.errstate(over="ignore"):
            fill = dtype.type(value)
        fits = np.isfinite(fill) or not np.isfinite(value)
    else:
        limits = (0, 1) if datatype.kind == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        fits = isinstance(value, int) and limits[0] <= value <= limits[1]
        fill = dtype.type(value) if fits else None
    if not fits:
        raise LoadError(f"{where}: {value!r} is no {datatype.name}; write a number that is, such as 0")
    return fill


def _cut_output(name: str, axis: int, specs: Sequence[TensorSpec]) -> CutOutput:
    where = f"padding.outputs.{name}"
    index, spec = _find(name, where, "output", specs)
    if isinstance(axis, bool) or not isinstance(axis, int) or not 0 <= axis < len(spec.dims):
        raise LoadError(
            f"{where}: must be an axis from 0 to {len(spec.dims) - 1} of {list(spec.dims)}, got {axis!r}"
            if spec.dims
            else f"{where}: the output has no dimension beside the batch; remove it from padding.outputs"
        )
    if spec.dims[axis] != -1:
        raise LoadError(
            f"{where}: dimension {axis} of {list(spec.dims)} is fixed at {spec.dims[axis]}, so it does not follow the "
            "inputs; name a free one (-1), or remove it from padding.outputs"
        )
    return CutOutput(name, index, axis + 1)


def _find(name: str, where: str, role: str, specs: Sequence[TensorSpec]) -> tuple[int, TensorSpec]:
    for index, spec in enumerate(specs):
        if spec.name == name:
            return index, spec
    raise LoadError(f"{where}: the model has no such {role}; it has {_listed(spec.name for spec in specs)}")


def _check_buckets(buckets: Sequence[int], max_tokens: int | None) -> None:
    for before, after in zip((0, *buckets), buckets, strict=False):
        if after <= before:
            raise LoadError(f"padding.buckets: must ascend from 1 without a length named twice, got {list(buckets)}")
    if max_tokens is not None and buckets and max_tokens < buckets[-1]:
        raise LoadError(
            f"padding.max_tokens: {max_tokens} is below the largest bucket, {buckets[-1]}, so no batch could be that "
            "long; raise it, or remove the bucket"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
