"""`labels`: indices of classes into their names."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guepard.core.errors import LoadError, ModelError
from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.model_file import model_file
from guepard.hooks.one_tensor import find_tensor

_LARGEST_BYTES = 2**26


class Labels:
    """Adds the output `name`, BYTES, right behind the indices.

    `file` has a label a line; or, as .json, a list, numbers as keys, or such a mapping under `id2label`.
    """

    def __init__(
        self,
        folder: Path,
        file: str | None = None,
        values: Sequence[str] = (),
        name: str = "labels",
        output: str | None = None,
    ) -> None:
        if (file is None) == (not values):
            raise LoadError("labels: write either `file`, a file of labels beside the model, or `values`, the labels")
        found = list(values) if file is None else _read(model_file(folder, file, "labels.file"), file)
        self._labels = np.array([label.encode() for label in found], object)
        self._name = name
        self._output = output

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        what = "indices, INT64 or INT32, such as top_k and argmax make"
        place = find_tensor("labels", "output", self._output, given, _holds_indices, what)
        spec = given[place]
        self._indices = spec.name
        return (*given[: place + 1], TensorSpec(self._name, "BYTES", spec.dims), *given[place + 1 :])

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        indices = outputs[self._indices]
        count = len(self._labels)
        if indices.size and (indices.min() < 0 or indices.max() >= count):
            raise ModelError(
                f"output {self._indices!r} holds an index outside of 0 to {count - 1}, the labels there are"
            )
        return {**outputs, self._name: self._labels[indices]}


def _holds_indices(spec: TensorSpec) -> bool:
    return spec.datatype.name in ("INT64", "INT32")


def _read(path: Path, name: str) -> list[str]:
    if path.stat().st_size > _LARGEST_BYTES:
        raise LoadError(f"labels.file: {name!r} is larger than {_LARGEST_BYTES} bytes")
    try:
        text = path.read_text("utf-8-sig")
        labels: Any = json.loads(text) if path.suffix == ".json" else text.splitlines()
    except ValueError as error:
        raise LoadError(f"labels.file: {name!r} cannot be read: {error}") from None
    if isinstance(labels, dict):
        labels = labels.get("id2label", labels)
    if isinstance(labels, dict):
        labels = [labels.get(str(index)) for index in range(len(labels))]
    if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
        raise LoadError(f"labels.file: {name!r} holds no labels for 0, 1, 2 and so on, all of them text")
    return labels
