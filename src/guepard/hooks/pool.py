"""`pool`: one vector for each text out of those of its tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from guepard.core.errors import LoadError
from guepard.core.tensor import Array, TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.float_output import FloatOutput
from guepard.hooks.one_tensor import replaced

Mode = Literal["mean", "cls", "max", "last"]


class Pool:
    """Adds nothing up that the model's input `mask` does not count: padding is left out.

    Shapes: [rows, length, width] → [rows, width]. Of a text without tokens: zeros.
    Source: sentence-transformers, "Pooling" (its modes mean_tokens, cls_token, max_tokens, lasttoken).
    """

    def __init__(
        self,
        folder: Path,
        mode: Mode = "mean",
        output: str | None = None,
        mask: str = "attention_mask",
        name: str = "embedding",
    ) -> None:
        self._mode = mode
        self._output = output
        self._mask = mask
        self._name = name

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        if self._mode != "cls" and self._mask not in [spec.name for spec in inputs]:
            names = ", ".join(repr(spec.name) for spec in inputs)
            raise LoadError(
                f"pool.mask: the model has no input {self._mask!r}, which says what is padding; it has {names}"
            )
        self._tokens = tokens = FloatOutput("pool", self._output, given)
        if len(tokens.spec.dims) != 2:
            raise LoadError(f"pool: output {tokens.name!r} is {tokens.spec}, and the step takes [length, width]")
        return replaced(given, tokens.place, TensorSpec(self._name, tokens.datatype, tokens.spec.dims[1:]))

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        tokens = self._tokens.values(outputs)
        others = {name: array for name, array in outputs.items() if name != self._tokens.name}
        return {**others, self._name: self._pooled(tokens, inputs)}

    def _pooled(self, tokens: Array, inputs: Tensors) -> Array:
        if not tokens.shape[1]:
            return np.zeros((len(tokens), tokens.shape[2]), tokens.dtype)
        if self._mode == "cls":
            first: Array = tokens[:, 0]
            return first
        counted = inputs[self._mask] != 0
        if self._mode == "mean":
            counts = np.maximum(counted.sum(1, keepdims=True), 1)
            sums = np.einsum("nlw,nl->nw", tokens, counted.astype(tokens.dtype))
            return np.asarray(sums / counts.astype(tokens.dtype))
        some = counted.any(1, keepdims=True)
        if self._mode == "max":
            return np.where(some, np.where(counted[..., None], tokens, -np.inf).max(1), 0).astype(tokens.dtype)
        last = counted.shape[1] - 1 - np.argmax(counted[:, ::-1], axis=1)
        return np.where(some, np.take_along_axis(tokens, last[:, None, None], 1)[:, 0], 0).astype(tokens.dtype)
