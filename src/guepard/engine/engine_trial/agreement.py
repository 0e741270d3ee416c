"""Do two engines say the same, as far as it is asked of them?

For each output, on all samples together:

    text, integers, booleans   must be equal
    floats                     NaN and infinities must be at the same places, and are left out of what follows
    a row of several values    the cosine between both, and their lengths, within the tolerance; the largest value at
                               the same place, unless those two places are a tie
    a row of one value         the difference within the same tolerance: a cosine says nothing of it

A cosine of c allows a row to be off by sqrt(2 (1 - c)) of its length, in its direction. Lengths may differ by as much,
for a cosine does not see a row that is twice as long. Single values may differ by 10 (1 - c), which is 1 % by default,
of the larger of the value and the root mean square of its column: where large terms cancel, what is left is as coarse
as they were.

A tie: the reference itself has two values in a row that are closer to each other than 1 % of the row's spread, or than
what the order of its sums may change. Nobody should rely on which of them is larger, and in half precision it is luck.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guepard.backends.base import Outputs
from guepard.core.engine_options import Tolerance
from guepard.core.tensor import Array, TensorSpec
from guepard.protocols.brain_float import to_float32

_TIE_OF_SPREAD = 0.01
_TIE_OF_VALUE = 1e-4
_NOTHING = 1e-6  # what each value of a row of zeros may be instead

Floats = NDArray[np.float64]


class Agreement(NamedTuple):
    """`cosine` is the worst of all rows and `top1` the share of rows, ties left out, whose largest value is at the same
    place; None where no output has rows of several values. `objection` is why the answers will not do; "": they do.
    """

    cosine: float | None
    top1: float | None
    objection: str


def agreement(
    specs: Sequence[TensorSpec],
    expected: Sequence[Outputs],
    actual: Sequence[Outputs],
    tolerance: Tolerance,
    *,
    batched: bool,
) -> Agreement:
    """Of the answers to several samples. `batched`: the first axis of each output counts rows, else it is all one row.

    Raises: nothing, whatever the outputs are.
    """
    seen = _Seen(tolerance)
    for place, spec in enumerate(specs):
        pairs = []
        for number, (left, right) in enumerate(zip(expected, actual, strict=True)):
            if len(right) != len(specs):
                return Agreement(None, None, f"it has {len(right)} outputs instead of {len(specs)}")
            objection = _form(spec, left[place], right[place])
            if objection:
                return Agreement(None, None, f"{objection} (sample {number + 1})")
            pairs.append((left[place], right[place]))
        seen.look_at(spec, pairs, batched)
    return Agreement(seen.cosine, seen.top1, seen.objection)


class _Seen:
    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._slack = float(np.sqrt(2 * (1 - tolerance.cosine)))
        self._places = [0, 0]  # rows whose largest value is at the same place, and all that are no tie
        self.cosine: float | None = None
        self.objection = ""

    @property
    def top1(self) -> float | None:
        same, decided = self._places
        return same / decided if decided else None if self.cosine is None else 1.0

    def look_at(self, spec: TensorSpec, pairs: Sequence[tuple[Array, Array]], batched: bool) -> None:
        name = repr(spec.name)
        if spec.datatype.kind != "float":
            if not all(np.array_equal(left, right) for left, right in pairs):
                self._object(f"{name} is not equal")
            return
        single: list[tuple[Floats, Floats]] = []
        for left, right in pairs:
            mine, theirs = _rows(spec, left, batched), _rows(spec, right, batched)
            if not _same_where_not_finite(mine, theirs):
                self._object(f"{name} has NaN or infinity where the reference has numbers, or the other way round")
                return
            here = np.isfinite(mine)
            mine, theirs = np.where(here, mine, 0.0), np.where(here, theirs, 0.0)
            if mine.shape[1] == 1:
                single.append((mine[:, 0], theirs[:, 0]))
            elif mine.size:
                self._look_at_rows(name, mine, theirs)
        if single:
            self._look_at_values(name, *map(np.concatenate, zip(*single, strict=True)))

    def _look_at_rows(self, name: str, mine: Floats, theirs: Floats) -> None:
        lengths, others = np.linalg.norm(mine, axis=1), np.linalg.norm(theirs, axis=1)
        are_nothing = (lengths == 0) & (others <= _NOTHING * np.sqrt(mine.shape[1]))
        products = np.where((lengths > 0) & (others > 0), lengths * others, 1.0)
        cosines = np.where(are_nothing, 1.0, np.minimum(1.0, (mine * theirs).sum(axis=1) / products))
        worst = float(cosines.min())
        self.cosine = worst if self.cosine is None else min(self.cosine, worst)
        if worst < self._tolerance.cosine:
            self._object(f"the cosine of {name} is {worst:.6g}, below {self._tolerance.cosine:g}")
        elif np.any(~are_nothing & (np.abs(others - lengths) > self._slack * lengths + _NOTHING)):
            self._object(f"rows of {name} are up to {_times(others, lengths):.3g} times as long")
        self._look_at_largest(name, mine, theirs)

    def _look_at_largest(self, name: str, mine: Floats, theirs: Floats) -> None:
        every = np.arange(len(mine))
        place, other = mine.argmax(axis=1), theirs.argmax(axis=1)
        top = mine[every, place]
        tie = np.maximum(_TIE_OF_SPREAD * (top - mine.min(axis=1)), _TIE_OF_VALUE * np.abs(top))
        is_same = place == other
        is_tie = ~is_same & (top - mine[every, other] <= tie)
        self._places[0] += int(is_same.sum())
        self._places[1] += int((~is_tie).sum())
        if self._tolerance.top1 and not np.all(is_same | is_tie):
            self._object(f"the largest value of {name} is elsewhere in {int((~(is_same | is_tie)).sum())} rows")

    def _look_at_values(self, name: str, mine: Floats, theirs: Floats) -> None:
        scale = np.maximum(np.abs(mine), np.sqrt(np.mean(mine**2)))
        allowed = 10 * (1 - self._tolerance.cosine)
        off = np.abs(theirs - mine)
        if np.any(off > allowed * scale + _NOTHING):
            share = float((off / np.maximum(scale, _NOTHING)).max())
            self._object(f"{name} is off by {share:.2g} of its size, more than {allowed:.2g}")

    def _object(self, objection: str) -> None:
        self.objection = self.objection or objection


def _form(spec: TensorSpec, expected: Array, actual: Array) -> str:
    """Why two answers cannot even be compared; "": they can."""
    if actual.shape != expected.shape:
        return f"{spec.name!r} is of shape {list(actual.shape)} instead of {list(expected.shape)}"
    if actual.dtype != expected.dtype:
        return f"{spec.name!r} is of {actual.dtype} instead of {expected.dtype}"
    return ""


def _rows(spec: TensorSpec, array: Array, batched: bool) -> Floats:
    numbers = (to_float32(array) if spec.datatype.name == "BF16" else array).astype(np.float64)
    return numbers.reshape((numbers.shape[0] if batched and numbers.ndim else 1, -1) if numbers.size else (0, 0))


def _same_where_not_finite(mine: Floats, theirs: Floats) -> bool:
    here = ~(np.isfinite(mine) & np.isfinite(theirs))
    return bool(np.array_equal(mine[here], theirs[here], equal_nan=True))


def _times(others: Floats, lengths: Floats) -> float:
    ratios = others / np.maximum(lengths, _NOTHING)
    return float(ratios[np.argmax(np.abs(ratios - 1))])
