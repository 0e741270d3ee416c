"""The shapes that a TensorRT engine is built for: the smallest, those it is made fast for, the largest.

Without them the provider learns shapes from requests and builds an engine anew, for minutes, when one has another.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from guepard.core.engine_options import TensorRtOptions
from guepard.core.errors import LoadError
from guepard.core.padding import PaddingRules
from guepard.core.tensor import TensorSpec

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]

_LARGEST = 2**31 - 1


class Profile(NamedTuple):
    """Shapes of the inputs that vary, the batch included. Empty when none does."""

    min: Shapes
    opt: Shapes
    max: Shapes


def read_shapes(text: str, option: str) -> dict[str, Shape]:
    """`ids:1x128,mask:1x128` → shapes by input. Names may hold colons. Raises: LoadError, with the option's name."""
    shapes: dict[str, Shape] = {}
    for part in text.split(","):
        name, colon, dims = part.strip().rpartition(":")
        sizes = dims.split("x")
        if not colon or not name or not all(size.isascii() and size.isdigit() for size in sizes):
            raise LoadError(f"{option}: {part.strip()!r} is no shape; write input:1x3x224x224, a comma between inputs")
        if name in shapes:
            raise LoadError(f"{option}: input {name!r} is there twice; an engine has one profile")
        shape = tuple(int(size) for size in sizes)
        if max(shape) > _LARGEST:
            raise LoadError(f"{option}: {part.strip()!r} is larger than TensorRT counts")
        shapes[name] = shape
    return shapes


def write_shapes(shapes: Shapes) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())


def find_profile(
    options: TensorRtOptions, inputs: Sequence[TensorSpec], max_batch_size: int, padding: PaddingRules | None
) -> Profile:
    """The operator's shapes, checked against the model; else what follows from the batch size and the buckets.

    Raises: LoadError when nothing says how large a free dimension may be, with what to write.
    """
    declared = {spec.name: _whole(spec, max_batch_size) for spec in inputs}
    free = {name: dims for name, dims in declared.items() if -1 in dims}
    said = {
        "profile_min_shapes": options.profile_min_shapes,
        "profile_opt_shapes": options.profile_opt_shapes,
        "profile_max_shapes": options.profile_max_shapes,
    }
    if not any(said.values()):
        return _derived(inputs, max_batch_size, padding)
    if said["profile_min_shapes"] is None or said["profile_max_shapes"] is None:
        missing = "min" if said["profile_min_shapes"] is None else "max"
        raise LoadError(f"profile_{missing}_shapes: missing; the smallest and the largest shapes belong together")
    read = {option: _checked(text, option, declared, free) for option, text in said.items() if text is not None}
    smallest, largest = read["profile_min_shapes"], read["profile_max_shapes"]
    usual = read.get("profile_opt_shapes", largest)
    for name in free:
        if not all(a <= b <= c for a, b, c in zip(smallest[name], usual[name], largest[name], strict=True)):
            raise LoadError(f"input {name!r}: the shapes of its profile do not grow from min to opt to max")
        if max_batch_size and (smallest[name][0] > 1 or largest[name][0] < max_batch_size):
            raise LoadError(
                f"input {name!r}: {smallest[name][0]} to {largest[name][0]} rows fit the profile, and batches have "
                f"1 to {max_batch_size}; write max_batch_size: {largest[name][0]}, or other shapes"
            )
    return Profile(*({name: shapes[name] for name in free} for shapes in (smallest, usual, largest)))


def _whole(spec: TensorSpec, max_batch_size: int) -> Shape:
    return (-1, *spec.dims) if max_batch_size else spec.dims


def _checked(text: str, option: str, declared: Shapes, free: Shapes) -> dict[str, Shape]:
    shapes = read_shapes(text, option)
    for name, shape in shapes.items():
        dims = declared.get(name)
        if dims is None:
            raise LoadError(f"{option}: the model has no input {name!r}; it has {', '.join(declared)}")
        if len(dims) != len(shape) or any(dim not in (-1, size) for dim, size in zip(dims, shape, strict=True)):
            raise LoadError(f"{option}: {list(shape)} does not fit input {name!r}, which is {list(dims)}")
    missing = next((name for name in free if name not in shapes), None)
    if missing is not None:
        raise LoadError(f"{option}: input {missing!r} varies and is not there; a profile names all that do")
    return shapes


def _derived(inputs: Sequence[TensorSpec], max_batch_size: int, padding: PaddingRules | None) -> Profile:
    smallest: dict[str, Shape] = {}
    largest: dict[str, Shape] = {}
    lengths = padding.buckets if padding is not None else None
    padded = padding.inputs if padding is not None else None
    for spec in inputs:
        if spec.free:
            if not lengths or not padded or spec.name not in padded:
                raise LoadError(
                    f"TensorRT must know how large input {spec.name!r}, {list(spec.dims)}, may be; write "
                    "padding.buckets, or onnxruntime.tensorrt.profile_min_shapes and profile_max_shapes"
                )
            bounds = (lengths[0], lengths[-1])
        elif max_batch_size:
            bounds = (1, 1)
        else:
            continue
        low, high = (tuple(bound if dim == -1 else dim for dim in spec.dims) for bound in bounds)
        smallest[spec.name] = (1, *low) if max_batch_size else low
        largest[spec.name] = (max_batch_size, *high) if max_batch_size else high
    return Profile(smallest, largest, largest)
