"""Estimators of scikit-learn as they are: what is not converted to ONNX.

Their methods are Python around numpy. They are called for a whole batch at a time, and keep to the CPU budget: OpenMP
and BLAS by `threadpoolctl`, joblib by `n_jobs`.
"""

import logging
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from guepard.backends.base import Executor, Inputs, LoadedModel, ModelSource, Outputs
from guepard.backends.sklearn_file import load_estimator, source_file
from guepard.backends.sklearn_samples import accepted_sample
from guepard.backends.sklearn_signature import (
    LABEL,
    PROBABILITIES,
    Given,
    Taken,
    as_output,
    last_step,
    taken_by,
)
from guepard.core.errors import InputError, LoadError, ModelError
from guepard.core.model_config import ModelDescription, Profile
from guepard.core.request import InferenceRequest

_LOGGER = logging.getLogger("guepard.backends.sklearn")

AUTO_MAX_BATCH_SIZE: dict[Profile, int] = {"standard": 256, "low-memory": 32}

# Their `predict` takes the class with the highest of `predict_proba`, and so need not be called as well.
# Source: scikit-learn, sklearn/tree/_classes.py and sklearn/ensemble/_forest.py.
_BY_PROBABILITIES = frozenset(
    {"DecisionTreeClassifier", "ExtraTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier"}
)


class SklearnBackend:
    """Loads a pickle or a .skops file, or a folder that holds one called `model`."""

    name = "sklearn"

    def load(self, source: ModelSource) -> "SklearnModel":
        file = source_file(source)
        loaded = load_estimator(file, trusted=source.trusted)
        if loaded.fitted_with and not source.again:
            _LOGGER.warning(
                "model %s was fitted with scikit-learn %s; another version may answer differently, so fit it anew",
                source.name,
                loaded.fitted_with,
            )
        estimator = loaded.estimator
        _set_jobs(estimator, source.threads)
        warnings.filterwarnings("ignore", message="X does not have valid feature names")  # a matrix has none
        datatype = source.policy.engines.sklearn.datatype
        taken = taken_by(estimator, datatype)
        given = accepted_sample(estimator, taken, datatype).given
        policy = source.policy
        asked = policy.max_batch_size
        description = ModelDescription(
            platform="sklearn",
            backend=self.name,
            inputs=taken.specs,
            outputs=tuple([each.spec for each in given]),
            max_batch_size=AUTO_MAX_BATCH_SIZE[source.profile] if asked is None else asked,
            batch_verified=asked is not None,
            idempotent=True if policy.idempotent is None else policy.idempotent,
            releases_gil=False,
            engine=self.name,
        )
        if asked == 0:
            raise LoadError("max_batch_size: an estimator takes rows, so it cannot be 0; write 1 to have no batches")
        return SklearnModel(source, estimator, taken, given, description)


class SklearnModel(LoadedModel):
    """One estimator for all executors: its methods for new rows change nothing in it."""

    def __init__(
        self,
        source: ModelSource,
        estimator: Any,
        taken: Taken,
        given: Sequence[Given],
        description: ModelDescription,
    ) -> None:
        self.description = description
        self._source = source
        self._estimator = estimator
        self._taken = taken
        self._given = given

    def executor(self) -> "SklearnExecutor":
        return SklearnExecutor(self._source, self._estimator, self._taken, self._given)


class SklearnExecutor(Executor):
    def __init__(self, source: ModelSource, estimator: Any, taken: Taken, given: Sequence[Given]) -> None:
        self._name = source.name
        self._threads = source.threads
        self._estimator = estimator
        self._taken = taken
        self._given = given
        self._classes = getattr(estimator, "classes_", None)
        self._by_probabilities = type(last_step(estimator)).__name__ in _BY_PROBABILITIES and [
            each.spec.name for each in given
        ] == [LABEL, PROBABILITIES]
        self._limited: int | None = None

    def execute(self, inputs: Inputs, requests: Sequence[InferenceRequest]) -> Outputs:
        self._limit_threads()
        try:
            rows = self._taken.given([array for array in inputs if array is not None])
        except UnicodeDecodeError as error:
            raise InputError(f"an input of text must be UTF-8: {error.reason}") from None
        try:
            answers = self._answers(rows)
        except ValueError as error:  # how scikit-learn refuses NaN, unknown categories and the like
            raise InputError(f"the model refuses the input: {(str(error).splitlines() or [''])[0][:300]}") from None
        except (Exception, SystemExit) as error:
            _LOGGER.exception("model %s failed", self._name)
            raise ModelError(f"model {self._name!r} failed: {type(error).__name__}") from None
        return [as_output(answer, each.spec) for answer, each in zip(answers, self._given, strict=True)]

    def _answers(self, rows: Any) -> list[Any]:
        if self._by_probabilities:
            probabilities = self._estimator.predict_proba(rows)
            return [self._classes.take(np.argmax(probabilities, axis=1)), probabilities]  # type: ignore[union-attr]
        return [getattr(self._estimator, each.method)(rows) for each in self._given]

    def _limit_threads(self) -> None:
        """OpenMP keeps its number for each thread that calls it, so the first call on a thread sets it."""
        thread = threading.get_ident()
        if thread != self._limited:
            import threadpoolctl

            threadpoolctl.threadpool_limits(self._threads)
            self._limited = thread


def _set_jobs(estimator: Any, threads: int) -> None:
    """What runs on several threads by joblib: its own number would be that of the machine."""
    try:
        names = [name for name in estimator.get_params() if name.rpartition("__")[2] == "n_jobs"]
        estimator.set_params(**dict.fromkeys(names, threads if threads > 1 else None))
    except Exception:  # estimators of others need not have parameters
        _LOGGER.debug("n_jobs was left as it is", exc_info=True)
