"""May a version of a model take the place of another while callers go on as before?"""

from collections.abc import Sequence

from guepard.core.model_config import ModelConfig
from guepard.core.tensor import TensorSpec


def incompatibility(old: ModelConfig, new: ModelConfig) -> str | None:
    """What would break a caller of `old` if `new` answered instead, or None.

    A right request must stay right and find every output it may ask for. So inputs and outputs keep name and datatype;
    an input may take more shapes than before, an output must not; what is new among the inputs is optional.
    """
    old_inputs = {spec.name for spec in old.inputs}
    new_inputs = {spec.name: spec for spec in new.inputs}
    new_outputs = {spec.name: spec for spec in new.outputs}
    for spec in old.inputs:
        found = new_inputs.get(spec.name)
        if found is None:
            return f"input {spec.name!r} is gone"
        if not _covers(found, _shape(found, new), spec, _shape(spec, old)) or (spec.optional and not found.optional):
            return f"input {spec.name!r} was {_describe(spec, old)} and is {_describe(found, new)}"
    for spec in new.inputs:
        if spec.name not in old_inputs and not spec.optional:
            return f"input {spec.name!r} is new and not optional"
    for spec in old.outputs:
        found = new_outputs.get(spec.name)
        if found is None:
            return f"output {spec.name!r} is gone"
        if not _covers(spec, _shape(spec, old), found, _shape(found, new)):
            return f"output {spec.name!r} was {_describe(spec, old)} and is {_describe(found, new)}"
    return None


def _covers(wide: TensorSpec, wide_shape: Sequence[int], narrow: TensorSpec, narrow_shape: Sequence[int]) -> bool:
    """Whether every tensor that `narrow` admits is one that `wide` admits."""
    return (
        wide.datatype.name == narrow.datatype.name
        and len(wide_shape) == len(narrow_shape)
        and all(have in (-1, want) for have, want in zip(wide_shape, narrow_shape, strict=True))
    )


def _shape(spec: TensorSpec, config: ModelConfig) -> list[int]:
    return [-1, *spec.dims] if config.max_batch_size else list(spec.dims)


def _describe(spec: TensorSpec, config: ModelConfig) -> str:
    return f"{'optional ' if spec.optional else ''}{spec.datatype.name} {_shape(spec, config)}"
