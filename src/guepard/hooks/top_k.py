"""`top_k`: the highest scores and where they are, along the last dimension."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from guepard.core.errors import LoadError
from guepard.core.tensor import Array, TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.float_output import FloatOutput
from guepard.hooks.one_tensor import replaced

_SORTED_UP_TO = 4_096  # scores a row; of more, those that count are found first


class TopK:
    """`scores`, falling, and `indices`, INT64, in the stead of the output. Of equals the first comes first.

    NaN is a failure of the model.
    """

    def __init__(self, folder: Path, k: int = 5, output: str | None = None) -> None:
        self._k = k
        self._output = output

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        self._scores = scores = FloatOutput("top_k", self._output, given)
        *dims, count = scores.spec.dims
        if count != -1 and self._k > count:
            raise LoadError(f"top_k.k: output {scores.name!r} has {count} scores a row, so at most {count}")
        dims.append(self._k if count != -1 else -1)
        return replaced(
            given,
            scores.place,
            TensorSpec("scores", scores.datatype, dims),
            TensorSpec("indices", "INT64", dims),
        )

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        scores = self._scores.ranked(outputs)
        indices = _highest(scores, min(self._k, scores.shape[-1]))
        others = {name: array for name, array in outputs.items() if name != self._scores.name}
        return {**others, "scores": np.take_along_axis(scores, indices, -1), "indices": indices}


def _highest(scores: Array, k: int) -> Array:
    """Shapes: [..., n] → [..., k]. The order is that of a stable sort, however they are found."""
    count = scores.shape[-1]
    if count <= _SORTED_UP_TO or not scores.size:
        return np.argsort(-scores, axis=-1, kind="stable")[..., :k]
    rows = scores.reshape(-1, count)
    found = np.stack([_highest_of_many(row, k) for row in rows])
    return found.reshape(*scores.shape[:-1], k)


def _highest_of_many(row: Array, k: int) -> Array:
    least = np.partition(row, len(row) - k)[len(row) - k]
    above = np.flatnonzero(row > least)
    indices = np.concatenate([above, np.flatnonzero(row == least)[: k - len(above)]])
    return indices[np.argsort(-row[indices], kind="stable")]
