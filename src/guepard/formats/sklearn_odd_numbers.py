"""What an estimator makes of NaN and infinity, which an ONNX model takes without a word."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guepard.backends.sklearn_signature import Given, Taken
from guepard.core.tensor import Array
from guepard.formats.sklearn_agreement import disagreement

_MOST_COLUMNS = 200
_COMPARED_ROWS = 4


class OddNumbers:
    """`takes_nan` and `takes_infinity`: the estimator answers, and the ONNX model in `model` says the same.

    Where the model says something else, it is taken for not taking them: trees guess about values that they never
    missed, and nothing tells those that did learn of some. `objection` is why the model cannot stand in for the
    estimator; empty if it can, where what is not taken is refused.
    """

    def __init__(
        self, estimator: Any, taken: Taken, given: Sequence[Given], model: Path, inputs: Sequence[Array]
    ) -> None:
        self.objection = ""
        self._judged = (estimator, taken, given, model)
        self.takes_nan = self._takes("NaN", np.nan, inputs)
        self.takes_infinity = self._takes("infinity", np.inf, inputs)

    def _takes(self, what: str, value: float, inputs: Sequence[Array]) -> bool:
        estimator, taken, given, model = self._judged
        answered, refused, found = 0, 0, ""
        for rows in _with(value, inputs):
            try:
                getattr(estimator, given[0].method)(taken.given(rows))
            except Exception:  # whatever it refuses them with
                refused += 1
                continue
            answered += 1
            found = found or disagreement(estimator, taken, given, model, rows)
        if found:
            return False
        if answered and refused:
            self.objection = self.objection or f"it takes {what} in some columns and refuses it in others"
        return bool(answered) or not refused


def _with(value: float, inputs: Sequence[Array]) -> Iterator[list[Array]]:
    """A few rows with `value` in one column, for each column of numbers."""
    rows = [array[:_COMPARED_ROWS] for array in inputs]
    for place, array in enumerate(rows):
        if array.dtype.kind != "f":
            continue
        for column in range(min(_MOST_COLUMNS, array[0].size)):
            changed = array.copy()
            changed.reshape(len(array), -1)[:, column] = value
            yield [*rows[:place], changed, *rows[place + 1 :]]
