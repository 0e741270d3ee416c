"""Inputs on which engines are compared: made up, but of the kind that the reference engine takes.

Zeros alone hide differences, as every product of them is zero in any precision. What a model wants is not known, only
what it accepts, so several kinds of values are tried:

    floats      normal; between 0 and 1; between 0 and 255 for what may be an image
    integers    anywhere in the datatype for 8 bits; else below the largest bound that the model takes, as indices are
    masks       ones: an input with "mask" in its name says which of the others' values count
    text        words
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from guepard.core.tensor import Array, TensorSpec, empty_array
from guepard.protocols.brain_float import from_float32

_BOUNDS = (30_000, 1_000, 100, 2)  # of indices: vocabularies of words, of letters, categories, flags
_IMAGE_RANK = 3
_WORDS = (b"a", b"fast", b"animal", b"runs", b"42", b"far beyond the hill", b"")
_KINDS = ("normal", "unit", "bytes")

Accepts = Callable[[Sequence[Array]], bool]


class SampleMaker:
    """`free_size` is that of free dimensions; `rows` None: the tensors have no batch dimension.

    `accepts` says whether the model takes a sample of one row.
    """

    def __init__(self, specs: Sequence[TensorSpec], free_size: int, rows: int | None, accepts: Accepts) -> None:
        self._specs = specs
        self._free_size = free_size
        self._rows = rows
        self._accepts = accepts
        self._bounds = [2] * len(specs)

    def samples(self) -> Iterator[list[Array]]:
        """Of every kind one, with as many distinct rows. The same at every call. The model may yet refuse one."""
        self._find_bounds()
        kinds = _KINDS if any(map(_may_be_image, self._specs)) else _KINDS[:-1]
        for seed, kind in enumerate(kinds):
            yield self._sample(kind, seed, self._rows)

    def _find_bounds(self) -> None:
        """How large integers may be, for each input by itself while the others are small."""
        one = None if self._rows is None else 1
        for place, spec in enumerate(self._specs):
            if spec.datatype.kind != "int" or spec.datatype.size == 1 or _is_mask(spec):
                continue
            for bound in _BOUNDS:
                self._bounds[place] = min(bound, int(np.iinfo(spec.datatype.dtype).max))
                if bound == _BOUNDS[-1] or self._accepts(self._sample(_KINDS[0], 0, one)):
                    break

    def _sample(self, kind: str, seed: int, rows: int | None) -> list[Array]:
        random = np.random.default_rng(seed)
        return [
            _values(random, spec, self._shape(spec, rows), kind, bound)
            for spec, bound in zip(self._specs, self._bounds, strict=True)
        ]

    def _shape(self, spec: TensorSpec, rows: int | None) -> list[int]:
        dims = [self._free_size if dim == -1 else dim for dim in spec.dims]
        return dims if rows is None else [rows, *dims]


def _values(random: np.random.Generator, spec: TensorSpec, shape: Sequence[int], kind: str, bound: int) -> Array:
    datatype = spec.datatype
    if datatype.kind == "bytes":
        words = empty_array(spec, shape)
        words.reshape(-1)[:] = random.choice(np.array(_WORDS, object), words.size)
        return words
    if datatype.kind == "bool":
        return random.integers(0, 2, shape).astype(datatype.dtype)
    if datatype.kind == "int":
        if _is_mask(spec):
            return np.ones(shape, datatype.dtype)
        info = np.iinfo(datatype.dtype)
        low, high = (int(info.min), int(info.max) + 1) if datatype.size == 1 else (0, bound)
        return random.integers(low, high, shape).astype(datatype.dtype)
    if kind == "normal":
        floats = random.normal(size=shape)
    else:
        floats = random.uniform(0, 255 if kind == "bytes" and _may_be_image(spec) else 1, shape)
    if _is_mask(spec):
        floats = np.ones(shape)
    return from_float32(floats.astype(np.float32)) if datatype.name == "BF16" else floats.astype(datatype.dtype)


def _is_mask(spec: TensorSpec) -> bool:
    return "mask" in spec.name.lower()


def _may_be_image(spec: TensorSpec) -> bool:
    return spec.datatype.kind == "float" and len(spec.dims) >= _IMAGE_RANK
