"""`classify`: scores of classes into the best one's name and all probabilities."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from guepard.core.errors import LoadError
from guepard.core.tensor import TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.float_output import FloatOutput
from guepard.hooks.one_tensor import replaced

Kind = Literal["single_label", "multi_label", "regression"]


class Classify:
    """`label` BYTES and `score` for each row, and `scores` [classes], in the stead of the output.

    single_label: softmax. multi_label: a sigmoid for each class, `label` being the likeliest. regression: `score`
    is the value itself, and nothing else is answered. NaN is a failure of the model.
    Source: transformers, "TextClassificationPipeline", and `problem_type` of its configurations.
    """

    def __init__(
        self, folder: Path, labels: Sequence[str], kind: Kind = "single_label", output: str | None = None
    ) -> None:
        self._labels = np.array([label.encode() for label in labels], object)
        self._kind = kind
        self._output = output

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        self._logits = logits = FloatOutput("classify", self._output, given)
        if len(logits.spec.dims) != 1:
            raise LoadError(f"classify: output {logits.name!r} is {logits.spec}, and the step takes [classes]")
        count = logits.spec.dims[0]
        score = TensorSpec("score", logits.datatype, ())
        if self._kind == "regression":
            if count not in (1, -1):
                raise LoadError(f"classify: output {logits.name!r} has {count} values, and regression takes one")
            return replaced(given, logits.place, score)
        if count not in (-1, len(self._labels)):
            raise LoadError(f"classify.labels: there are {len(self._labels)}, and output {logits.name!r} has {count}")
        scores = TensorSpec("scores", logits.datatype, [len(self._labels)])
        return replaced(given, logits.place, TensorSpec("label", "BYTES", ()), score, scores)

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        logits = self._logits.ranked(outputs)
        others = {name: array for name, array in outputs.items() if name != self._logits.name}
        if self._kind == "regression":
            return {**others, "score": logits[:, 0]}
        if self._kind == "multi_label":
            with np.errstate(over="ignore"):  # of exp: 1 / infinity is the 0 that is meant
                scores = 1 / (1 + np.exp(-logits))
        else:
            scores = np.exp(logits - logits.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
        best = scores.argmax(-1)
        score = scores[np.arange(len(scores)), best]
        return {**others, "label": self._labels[best], "score": score, "scores": scores}
