"""`entities`: a class for each token into the spans of text that they make up.

Source: transformers, "TokenClassificationPipeline": its aggregation strategies none, simple, first, average and max.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson

from guepard.core.errors import LoadError
from guepard.core.tensor import Array, TensorSpec
from guepard.hooks.base import Tensors
from guepard.hooks.float_output import FloatOutput
from guepard.hooks.one_tensor import replaced
from guepard.hooks.tokenize import OFFSETS, TEXT

Aggregation = Literal["none", "simple", "first", "average", "max"]

_OUTSIDE = "O"


@dataclass(slots=True)
class _Piece:
    """A token, or a word, with its class. `scores` are of all classes."""

    start: int
    end: int
    label: int
    score: float


class Entities:
    """`entities` BYTES: a JSON list for each text, of `entity_group`, `score`, `word`, `start` and `end`.

    `start` and `end` count characters, and `word` is that part of the text as it came. With aggregation none each token
    is an entry, whose class is called `entity`. The class O is left out. NaN is a failure of the model.
    """

    rides = (OFFSETS, TensorSpec(TEXT, "BYTES", ()))
    """What travels with each request from `tokenize` to here."""

    def __init__(
        self, folder: Path, labels: Sequence[str], aggregation: Aggregation = "simple", output: str | None = None
    ) -> None:
        self._labels = tuple(labels)
        self._aggregation = aggregation
        self._output = output

    def after(self, given: Sequence[TensorSpec], inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        self._logits = logits = FloatOutput("entities", self._output, given)
        if len(logits.spec.dims) != 2 or logits.spec.dims[1] not in (-1, len(self._labels)):
            raise LoadError(
                f"entities: output {logits.name!r} is {logits.spec}, and the step takes [length, {len(self._labels)}], "
                "as there are so many labels"
            )
        return replaced(given, logits.place, TensorSpec("entities", "BYTES", ()))

    def run(self, outputs: Tensors, inputs: Tensors) -> Tensors:
        logits = self._logits.ranked(outputs)
        scores = np.exp(logits - logits.max(-1, keepdims=True)) if logits.size else logits
        scores /= scores.sum(-1, keepdims=True)
        answers = np.empty(len(scores), object)
        for row, (text, offsets) in enumerate(zip(inputs[TEXT], inputs[OFFSETS.name], strict=True)):
            answers[row] = orjson.dumps(list(self._found(text.decode(), offsets, scores[row])))
        others = {name: array for name, array in outputs.items() if name != self._logits.name}
        return {**others, "entities": answers}

    def _found(self, text: str, offsets: Array, scores: Array) -> Iterator[dict[str, Any]]:
        tokens = np.flatnonzero(offsets[: len(scores), 1] > offsets[: len(scores), 0])  # neither special nor padding
        if self._aggregation in ("none", "simple"):
            pieces = [self._piece(offsets, [int(token)], scores[token]) for token in tokens]
        else:
            pieces = [self._piece(offsets, word, self._of_word(scores[word])) for word in _words(tokens, offsets)]
        key = "entity" if self._aggregation == "none" else "entity_group"
        for label, score, start, end in self._spans(pieces):
            if label != _OUTSIDE:
                yield {key: label, "score": score, "word": text[start:end], "start": start, "end": end}

    def _piece(self, offsets: Array, tokens: Sequence[int], scores: Array) -> _Piece:
        label = int(scores.argmax())
        return _Piece(int(offsets[tokens[0], 0]), int(offsets[tokens[-1], 1]), label, float(scores[label]))

    def _of_word(self, scores: Array) -> Array:
        """Of the tokens of one word, [tokens, classes], as the strategy joins them."""
        if self._aggregation == "average":
            return np.asarray(scores.mean(0, dtype=scores.dtype))
        return np.asarray(scores[0 if self._aggregation == "first" else scores.max(1).argmax()])

    def _spans(self, pieces: Sequence[_Piece]) -> Iterator[tuple[str, float, int, int]]:
        """Neighbours of one class, joined unless one begins anew: B-PER after I-PER."""
        if self._aggregation == "none":
            for piece in pieces:
                yield self._labels[piece.label], piece.score, piece.start, piece.end
            return
        group: list[_Piece] = []
        for piece in pieces:
            begins, name = self._parts(piece)
            if group and (begins or name != self._parts(group[-1])[1]):
                yield self._joined(group)
                group = []
            group.append(piece)
        if group:
            yield self._joined(group)

    def _joined(self, group: Sequence[_Piece]) -> tuple[str, float, int, int]:
        score = float(np.mean([piece.score for piece in group]))
        return self._parts(group[0])[1], score, group[0].start, group[-1].end

    def _parts(self, piece: _Piece) -> tuple[bool, str]:
        """Whether an entity begins there, and its class: B-PER is the beginning of a PER."""
        label = self._labels[piece.label]
        return label.startswith("B-"), label[2:] if label[:2] in ("B-", "I-") else label


def _words(tokens: Array, offsets: Array) -> Iterator[list[int]]:
    word: list[int] = []
    for token in tokens:
        if word and offsets[token, 2] != offsets[word[-1], 2]:
            yield word
            word = []
        word.append(int(token))
    if word:
        yield word
