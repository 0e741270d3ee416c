"""What an estimator takes and gives, found out from what it learned.

A pipeline takes what its first step takes and gives what its last one gives. Numbers come as one matrix; texts as one
text a row; and where columns were named and are treated by their names, each column is an input of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from guepard.core.errors import LoadError
from guepard.core.tensor import Array, TensorSpec

Form = Literal["matrix", "text", "columns"]
Datatype = Literal["FP32", "FP64"]

MATRIX, TEXT = "input", "text"
LABEL, PROBABILITIES, SCORES = "label", "probabilities", "scores"
PREDICTION, TRANSFORMED = "prediction", "transformed"


class SampleRefused(LoadError):
    """Another sample may do."""


@dataclass(frozen=True, slots=True)
class Taken:
    """`specs` are the inputs, without the batch: one, or in form `columns` one for each column."""

    form: Form
    specs: tuple[TensorSpec, ...]

    def given(self, arrays: Sequence[Array]) -> Any:
        """What the estimator's methods are to be called with."""
        if self.form == "matrix":
            # Doubles, as a rule, are what it was fitted on, and some estimators take nothing else then.
            return _texts(arrays[0]) if self.specs[0].datatype.name == "BYTES" else arrays[0].astype(float)
        if self.form == "text":
            return [value.decode() for value in arrays[0]]
        import pandas

        columns = {
            spec.name: _texts(array) if spec.datatype.name == "BYTES" else array
            for spec, array in zip(self.specs, arrays, strict=True)
        }
        return pandas.DataFrame(columns, copy=False)


@dataclass(frozen=True, slots=True)
class Given:
    """One output: `method` of the estimator makes it, of a shape [rows, *spec.dims]."""

    spec: TensorSpec
    method: str


def taken_by(estimator: Any, datatype: Datatype) -> Taken:
    """Raises: LoadError for what was not fitted, or takes what cannot be told."""
    first = first_step(estimator)
    if is_text_reader(first):
        return Taken("text", (TensorSpec(TEXT, "BYTES", ()),))
    names = getattr(first, "feature_names_in_", getattr(estimator, "feature_names_in_", None))
    if names is not None and hasattr(first, "transformers_"):
        texts = set(_text_columns(first, names))
        _require_pandas()
        return Taken("columns", tuple([TensorSpec(str(n), "BYTES" if n in texts else datatype, ()) for n in names]))
    count = getattr(first, "n_features_in_", getattr(estimator, "n_features_in_", None))
    if count is None:
        raise LoadError(
            f"{type(estimator).__name__} does not say how many features it takes: fit it before it is saved"
        )
    kinds = {_holds_texts(each) for each in getattr(first, "categories_", ())}
    if kinds == {True, False}:
        raise LoadError(
            "some columns hold text and others numbers; fit on a DataFrame with a ColumnTransformer, so that they have "
            "names and datatypes of their own"
        )
    return Taken("matrix", (TensorSpec(MATRIX, "BYTES" if kinds == {True} else datatype, (int(count),)),))


def given_by(estimator: Any, sample: Any, datatype: Datatype) -> tuple[Given, ...]:
    """`sample`: two rows of what it takes. Raises: LoadError where no method is of use; SampleRefused."""
    made: list[Given] = []
    methods = _methods(estimator)
    if not methods:
        raise LoadError(
            f"{type(estimator).__name__} has neither predict nor transform for new rows, so there is nothing to serve"
        )
    for name, method in methods:
        try:
            answer = dense(getattr(estimator, method)(sample))
        except (Exception, SystemExit) as error:
            if type(error).__name__ == "NotFittedError":
                raise LoadError(f"{type(estimator).__name__} is not fitted; fit it before it is saved") from None
            raise SampleRefused(f"{method} refuses a sample: {type(error).__name__}: {_line(error)}") from error
        if isinstance(answer, list) or answer.shape[:1] != (2,):
            if name != PROBABILITIES:
                raise LoadError(f"{method} does not give one row for each row")
            continue  # one matrix for each output of a model of several
        made.append(Given(TensorSpec(name, _datatype(name, answer, datatype), answer.shape[1:]), method))
    return tuple(made)


def dense(answer: Any) -> Any:
    """A numpy array out of what a method returned: sparse matrices and frames too."""
    if hasattr(answer, "toarray"):
        return answer.toarray()
    return answer if isinstance(answer, list) else np.asarray(answer)


def as_output(answer: Any, spec: TensorSpec) -> Array:
    """An answer of a method as a tensor of `spec`."""
    array = dense(answer)
    if spec.datatype.name == "BYTES":
        flat = [str(value).encode() for value in array.reshape(-1)]
        made: Array = np.empty(len(flat), object)
        made[:] = flat
        return made.reshape(array.shape)
    return np.ascontiguousarray(array, spec.datatype.dtype)


def steps_of(estimator: Any) -> Iterator[Any]:
    """The real steps of a pipeline, of those within it too, in their order; of anything else itself."""
    if not hasattr(estimator, "steps"):
        yield estimator
    for _, step in getattr(estimator, "steps", ()):
        if step is not None and not isinstance(step, str):
            yield from steps_of(step)


def first_step(estimator: Any) -> Any:
    return next(steps_of(estimator), estimator)


def last_step(estimator: Any) -> Any:
    while getattr(estimator, "steps", None):
        estimator = estimator.steps[-1][1]
    return estimator


def is_text_reader(step: Any) -> bool:
    return hasattr(step, "analyzer") and hasattr(step, "build_analyzer") and getattr(step, "input", "") == "content"


def _text_columns(transformer: Any, names: Sequence[str]) -> Iterator[str]:
    """The columns that hold text, as the transformers of a ColumnTransformer learned it."""
    for _, step, columns in transformer.transformers_:
        if isinstance(step, str):
            continue
        chosen = chosen_columns(columns, names)
        first = first_step(step)
        if is_text_reader(first):
            yield from chosen
            continue
        learned = getattr(first, "categories_", None)
        if learned is None:
            learned = [np.asarray([value]) for value in getattr(first, "statistics_", ())]
        yield from (name for name, values in zip(chosen, learned, strict=False) if _holds_texts(values))


def chosen_columns(columns: Any, names: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice):
        return list(names[columns]) if not isinstance(columns.start, str) else [str(name) for name in names]
    found: list[Any] = [columns] if np.isscalar(columns) else list(columns)
    if found and isinstance(found[0], bool | np.bool_):
        return [name for name, is_chosen in zip(names, found, strict=False) if is_chosen]
    return [each if isinstance(each, str) else str(names[int(each)]) for each in found]


def _holds_texts(values: Any) -> bool:
    return any(isinstance(value, str) for value in np.asarray(values, object).reshape(-1))


def _methods(estimator: Any) -> list[tuple[str, str]]:
    kind = getattr(last_step(estimator), "_estimator_type", None) or _kind_by_tags(estimator)
    if kind == "classifier":
        scores = [(PROBABILITIES, "predict_proba")] if hasattr(estimator, "predict_proba") else []
        if not scores and hasattr(estimator, "decision_function"):
            scores = [(SCORES, "decision_function")]
        return [(LABEL, "predict"), *scores]
    if kind == "outlier_detector" and hasattr(estimator, "predict"):
        return [(LABEL, "predict"), (SCORES, "decision_function")]
    if hasattr(estimator, "predict"):
        return [(LABEL if kind == "clusterer" else PREDICTION, "predict")]
    return [(TRANSFORMED, "transform")] if hasattr(estimator, "transform") else []


def _kind_by_tags(estimator: Any) -> str | None:
    try:
        from sklearn.utils import get_tags

        kind = get_tags(estimator).estimator_type
    except Exception:  # estimators of other packages have tags of their own kind
        return None
    return None if kind is None else str(kind)


def _datatype(name: str, answer: Array, floats: Datatype) -> str:
    if name != LABEL:
        if answer.dtype.kind in "fiub":
            return floats
    elif answer.dtype.kind in "iub":
        return "INT64"
    elif answer.dtype.kind == "f":
        return floats
    if answer.dtype.kind in "OUS":
        return "BYTES"
    raise LoadError(f"output {name!r} is of type {answer.dtype}, which cannot travel")


def _texts(array: Array) -> Array:
    made: Array = np.empty(array.size, object)
    made[:] = [value.decode() for value in array.reshape(-1)]
    return made.reshape(array.shape)


def _require_pandas() -> None:
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise LoadError(
            "the model takes columns by their names, for which pandas is needed; install it: pip install pandas"
        ) from None


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]
