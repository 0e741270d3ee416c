"""Rows that an estimator would take, made of what it learned: categories, words, ranges, and the thresholds of trees.

Values right at a threshold matter most: there a rounding sends a row down the other branch.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from guepard.backends.sklearn_signature import (
    Datatype,
    Given,
    SampleRefused,
    Taken,
    chosen_columns,
    first_step,
    given_by,
    is_text_reader,
    steps_of,
)
from guepard.core.tensor import Array

_WORDS = ("a", "I", "model", "unknown", "don't", "x-y", "42", "été", "Ünder", "Straße", "東京", "🐆", "a.b", "_c")
_MOST_THRESHOLDS = 64  # of one feature
_WORDS_OF_A_TEXT = 12


class Sample(NamedTuple):
    """`inputs` are rows that the estimator takes, and `given` is what it gives for them."""

    inputs: list[Array]
    given: tuple[Given, ...]


def accepted_sample(estimator: Any, taken: Taken, datatype: Datatype, rows: int = 2) -> Sample:
    """Rows made for it, without negative numbers if it refuses those. Raises: LoadError."""
    made = samples(estimator, taken, rows)
    positive = [array if array.dtype == object else np.abs(array) for array in made]
    try:
        return Sample(made, given_by(estimator, taken.given([array[:2] for array in made]), datatype))
    except SampleRefused:
        return Sample(positive, given_by(estimator, taken.given([array[:2] for array in positive]), datatype))


def samples(estimator: Any, taken: Taken, rows: int) -> list[Array]:
    """`rows` rows of each input, the same ones every time."""
    random = np.random.default_rng(7)
    first = first_step(estimator)
    if taken.form == "text":
        return [_texts(random, _words(first), rows)]
    if taken.form == "columns":
        return [_column(random, first, spec.name, spec.datatype.name, rows) for spec in taken.specs]
    spec = taken.specs[0]
    learned = list(getattr(first, "categories_", ()))
    if learned:
        columns = [_picked(random, values, rows, spec.datatype.name) for values in learned]
        return [np.stack(columns, axis=1)]
    matrix = _numbers(random, estimator, spec.dims[0], rows)
    return [matrix.astype(spec.datatype.dtype)]


def _column(random: np.random.Generator, transformer: Any, name: str, datatype: str, rows: int) -> Array:
    for _, step, columns in transformer.transformers_:
        names = chosen_columns(columns, transformer.feature_names_in_)
        if name not in names or isinstance(step, str):
            continue
        place = names.index(name)
        first = first_step(step)
        if is_text_reader(first):
            return _texts(random, _words(first), rows)
        for each in steps_of(step):
            learned = getattr(each, "categories_", None)
            if learned is not None and place < len(learned):
                return _picked(random, learned[place], rows, datatype)
        if datatype == "BYTES":
            return _texts(random, [str(value) for value in getattr(first, "statistics_", _WORDS)], rows, 1)
        return _numbers(random, step, len(names), rows)[:, place].astype(np.float32 if datatype == "FP32" else float)
    if datatype == "BYTES":
        return _texts(random, _WORDS, rows, 1)
    return random.normal(size=rows).astype(np.float32 if datatype == "FP32" else float)


def _picked(random: np.random.Generator, values: Any, rows: int, datatype: str) -> Array:
    known = [value for value in np.asarray(values, object).reshape(-1) if isinstance(value, str) or value == value]
    picks = [known[place] for place in random.integers(0, len(known), rows)] if known else [0] * rows
    if datatype != "BYTES":
        return np.array(picks, np.float32 if datatype == "FP32" else float)
    made: Array = np.empty(rows, object)
    made[:] = [str(value).encode() for value in picks]
    return made


def _texts(random: np.random.Generator, words: Sequence[str], rows: int, most: int = _WORDS_OF_A_TEXT) -> Array:
    made: Array = np.empty(rows, object)
    for row in range(rows):
        text = " ".join(words[place] for place in random.integers(0, len(words), random.integers(1, most + 1)))
        made[row] = (text, text, text.upper(), text.title() + ".")[row % 4 if most > 1 else 0].encode()
    return made


def _words(reader: Any) -> Sequence[str]:
    return [*sorted(getattr(reader, "vocabulary_", ()))[:2_000], *_WORDS]


def _numbers(random: np.random.Generator, estimator: Any, count: int, rows: int) -> Array:
    centre, spread = np.zeros(count), np.ones(count)
    for step in steps_of(estimator):
        learned = _range_of(step, count)
        if learned is not None:
            centre, spread = learned
            break
    matrix = centre + spread * random.normal(size=(rows, count))
    matrix[: rows // 8] = np.round(matrix[: rows // 8])
    for feature, thresholds in _thresholds(estimator, count):
        at = random.choice(thresholds, size=rows // 2)
        beside = np.nextafter(at.astype(np.float32), np.where(random.random(at.size) < 0.5, np.inf, -np.inf))
        places = random.choice(rows, size=rows // 2, replace=False)
        matrix[places, feature] = np.where(random.random(at.size) < 0.5, at, beside.astype(float))
    return matrix


def _range_of(step: Any, count: int) -> tuple[Array, Array] | None:
    """Where the values lie that the step was fitted on, and how far apart."""
    for middle, width in (("mean_", "scale_"), ("center_", "scale_")):
        known = _learned(step, middle, count), _learned(step, width, count)
        if known[0] is not None and known[1] is not None:
            return known[0], known[1]
    low, high = _learned(step, "data_min_", count), _learned(step, "data_max_", count)
    if low is not None and high is not None:
        return (low + high) / 2, (high - low) / 3
    found = list(_thresholds(step, count))
    if not found:
        return None
    centre: Array = np.zeros(count)
    spread: Array = np.ones(count)
    for feature, thresholds in found:
        centre[feature], spread[feature] = np.median(thresholds), max(np.ptp(thresholds) / 2, 1e-3)
    return centre, spread


def _learned(step: Any, attribute: str, count: int) -> Array | None:
    value: Array = np.asarray(getattr(step, attribute, None), object)
    return value.astype(float) if value.shape == (count,) else None


def _thresholds(estimator: Any, count: int) -> Iterator[tuple[int, Array]]:
    """Of each feature that trees split by: those of scikit-learn, and its trees over histograms."""
    features, values = [np.zeros(0, int)], [np.zeros(0)]
    for tree in _trees(estimator):
        features.append(tree[0])
        values.append(tree[1])
    feature, value = np.concatenate(features), np.concatenate(values)
    for each in range(count):
        mine = np.unique(value[feature == each])
        if mine.size:
            yield each, mine[:: max(1, mine.size // _MOST_THRESHOLDS)]


def _trees(estimator: Any) -> Iterator[tuple[Array, Array]]:
    if hasattr(estimator, "tree_"):
        inner = estimator.tree_.feature >= 0
        yield estimator.tree_.feature[inner], estimator.tree_.threshold[inner]
    for each in np.asarray(getattr(estimator, "estimators_", ()), object).reshape(-1):
        yield from _trees(each)
    for iteration in getattr(estimator, "_predictors", ()):
        for predictor in iteration:
            inner = (predictor.nodes["is_leaf"] == 0) & (predictor.nodes["is_categorical"] == 0)
            yield predictor.nodes["feature_idx"][inner].astype(int), predictor.nodes["num_threshold"][inner]
