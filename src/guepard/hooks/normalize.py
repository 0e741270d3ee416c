"""`normalize`: pictures in bytes into the numbers that a model was trained on, in its layout."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from guepard.core.errors import LoadError
from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.one_tensor import find_tensor, replaced

Numbers = float | Sequence[float]
Layout = Literal["NCHW", "NHWC"]

_DATATYPES = ("FP32", "FP16", "FP64", "UINT8")
_WHAT = f"pictures, as {', '.join(_DATATYPES)} of three dimensions"


class Normalize:
    """Each value becomes (value * scale - mean) / std, in the datatype that the model takes; UINT8 keep theirs.

    Without `layout`, the model's own declaration tells where the channels are: NCHW for [3, 224, 224].
    """

    def __init__(
        self,
        folder: Path,
        scale: float | None = None,
        mean: Numbers = 0.0,
        std: Numbers = 1.0,
        layout: Layout | None = None,
        input: str | None = None,  # noqa: A002 - the option's name
    ) -> None:
        self._scale, self._mean, self._std, self._layout, self._input = scale, mean, std, layout, input

    def before(self, wanted: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        place = find_tensor("normalize", "input", self._input, wanted, _fits, _WHAT)
        spec = wanted[place]
        self._name, self._dtype = spec.name, spec.datatype.dtype
        self._is_first = _channels_first(self._layout, spec)
        channels = spec.dims[0] if self._is_first else spec.dims[2]
        sides = spec.dims[1:] if self._is_first else spec.dims[:2]
        mean, std = _each("mean", self._mean, channels), _each("std", self._std, channels)
        if not std.all():
            raise LoadError("normalize.std: 0 divides nothing; write values above 0")
        scale = 1 / 255 if self._scale is None else self._scale
        self._factor = (scale / std).astype(np.float32)
        self._summand = (-mean / std).astype(np.float32)
        if spec.datatype.name == "UINT8" and (self._scale not in (None, 1) or mean.any() or (std != 1).any()):
            raise LoadError(f"normalize: input {spec.name!r} takes UINT8, which stay as they are; leave all but layout")
        return replaced(wanted, place, TensorSpec(spec.name, "UINT8", (*sides, channels), spec.optional))

    def run(self, tensors: Tensors) -> Tensors:
        pixels = tensors.get(self._name)
        if pixels is None:
            return tensors
        factor, summand = self._factor, self._summand
        if self._is_first:
            pixels = pixels.transpose(0, 3, 1, 2)
            factor, summand = factor[:, np.newaxis, np.newaxis], summand[:, np.newaxis, np.newaxis]
        if self._dtype == np.uint8:
            return {**tensors, self._name: np.ascontiguousarray(pixels)}
        made = np.empty(pixels.shape, np.float32)
        np.multiply(pixels, factor, out=made)
        made += summand
        return {**tensors, self._name: made.astype(self._dtype, copy=False)}


def _fits(spec: TensorSpec) -> bool:
    return spec.datatype.name in _DATATYPES and len(spec.dims) == 3


def _channels_first(layout: Layout | None, spec: TensorSpec) -> bool:
    first, last = spec.dims[0] in (1, 3), spec.dims[2] in (1, 3)
    if layout is None:
        if first == last:
            raise LoadError(f"normalize.layout: {list(spec.dims)} does not tell where channels are; write NCHW or NHWC")
        return first
    if not (first if layout == "NCHW" else last):
        raise LoadError(f"normalize.layout: {layout} means 1 or 3 channels there, and the model has {list(spec.dims)}")
    return layout == "NCHW"


def _each(option: str, numbers: Numbers, channels: int) -> np.ndarray:
    values = np.array([numbers] if isinstance(numbers, int | float) else numbers, np.float64)
    if len(values) not in (1, channels):
        raise LoadError(f"normalize.{option}: expected one number or {channels}, one a channel, got {len(values)}")
    return values.repeat(channels) if len(values) == 1 else values
