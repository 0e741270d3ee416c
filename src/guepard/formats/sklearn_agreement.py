"""Does a converted model answer as the estimator does?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guepard.backends.sklearn_signature import LABEL, PROBABILITIES, SCORES, Given, Taken, as_output
from guepard.core.tensor import Array

TOLERANCE = 1e-4
"""Of a probability, and of other numbers in proportion to the root mean square of their output."""

_TIE = 1e-5


def disagreement(estimator: Any, taken: Taken, given: Sequence[Given], model: Path, inputs: Sequence[Array]) -> str:
    """Where the ONNX model in `model` says something else for `inputs`; empty where it does not. Blocks."""
    import onnxruntime

    rows = taken.given(inputs)
    expected = [as_output(getattr(estimator, each.method)(rows), each.spec) for each in given]
    try:
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        fed = {spec.name: _fed(array) for spec, array in zip(taken.specs, inputs, strict=True)}
        answers = session.run([each.spec.name for each in given], fed)
    except Exception as error:
        return f"as ONNX it does not run: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
    tied = _tied(given, expected)
    for each, mine, theirs in zip(given, expected, answers, strict=True):
        found = _difference(each.spec.name, mine, _as_ours(theirs), tied)
        if found:
            return found
    return ""


def _difference(name: str, expected: Array, answer: Array, tied: Array | None) -> str:
    if expected.shape != answer.shape:
        return f"as ONNX {name} has shape {list(answer.shape)}, and the estimator's has {list(expected.shape)}"
    if expected.dtype.kind not in "f":
        differs = expected != answer
        if name == LABEL and tied is not None and differs.ndim == 1:
            differs &= ~tied
        count = int(differs.reshape(len(differs), -1).any(1).sum())
        return f"as ONNX {name} differs in {count} of {len(expected)} rows made for it" if count else ""
    scale = 1.0 if name == PROBABILITIES else max(float(np.sqrt(np.mean(np.square(expected, dtype=float)))), 1e-30)
    if not np.array_equal(np.isfinite(expected), np.isfinite(answer)):
        return f"as ONNX {name} has NaN or infinity at other places"
    gaps = np.abs(np.nan_to_num(expected.astype(float)) - np.nan_to_num(answer.astype(float)))
    worst = float(gaps.max(initial=0.0))
    if worst > TOLERANCE * scale:
        count = int((gaps > TOLERANCE * scale).reshape(len(gaps), -1).any(1).sum())
        return f"as ONNX {name} differs by up to {worst:.3g} in {count} of {len(expected)} rows made for it"
    return ""


def _tied(given: Sequence[Given], expected: Sequence[Array]) -> Array | None:
    """The rows whose best two classes are about as likely: which of them is named nobody can rely on."""
    for each, scores in zip(given, expected, strict=True):
        if each.spec.name in (PROBABILITIES, SCORES) and scores.dtype.kind == "f":
            if scores.ndim == 1:
                tied: Array = np.abs(scores) < _TIE
                return tied
            best = np.sort(scores, axis=1)
            return np.asarray(best[:, -1] - best[:, -2] < _TIE) if scores.shape[1] > 1 else None
    return None


def _fed(array: Array) -> Array:
    if array.dtype != object:
        return array
    made: Array = np.empty(array.size, object)
    made[:] = [value.decode() for value in array.reshape(-1)]
    return made.reshape(array.shape)


def _as_ours(answer: Any) -> Array:
    array = np.asarray(answer)
    if array.dtype.kind not in "OUS":
        return array
    made: Array = np.empty(array.size, object)
    made[:] = [str(value).encode() for value in array.reshape(-1)]
    return made.reshape(array.shape)
