"""Estimators that are served as they are."""

import logging
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn
import threadpoolctl
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier

from guepard.backends.base import ModelSource
from guepard.backends.sklearn import SklearnBackend, SklearnModel
from guepard.core.engine_options import EngineOptions, SklearnOptions
from guepard.core.errors import InputError, LoadError, ModelError
from guepard.core.model_config import ModelPolicy
from guepard.core.tensor import Array
from tests.services.sklearn_models import FLOWERS, KINDS, MAKERS, PASSENGERS, REVIEWS, logarithms


def load(estimator: Any, folder: Path, **options: Any) -> SklearnModel:
    joblib.dump(estimator, folder / "model.joblib")
    policy = ModelPolicy(engines=EngineOptions(sklearn=SklearnOptions(**options.pop("sklearn", {}))), **options)
    return SklearnBackend().load(ModelSource("m", "1", folder, policy, trusted=True, threads=2))


def ask(model: SklearnModel, *inputs: Array) -> list[Array]:
    return list(model.executor().execute(inputs, ()))


def texts(values: Any) -> Array:
    made: Array = np.empty(len(values), object)
    made[:] = [value.encode() for value in values]
    return made


def specs(model: SklearnModel) -> list[tuple[str, str, tuple[int, ...]]]:
    described = model.description
    return [(spec.name, spec.datatype.name, spec.dims) for spec in (*described.inputs, *described.outputs)]


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        ("names", [("input", "FP32", (4,)), ("label", "BYTES", ()), ("probabilities", "FP32", (3,))]),
        ("forest", [("input", "FP32", (4,)), ("label", "INT64", ()), ("probabilities", "FP32", (3,))]),
        ("two numbers", [("input", "FP32", (10,)), ("prediction", "FP32", (2,))]),
        ("clusters", [("input", "FP32", (4,)), ("label", "INT64", ())]),
        ("outliers", [("input", "FP32", (4,)), ("label", "INT64", ()), ("scores", "FP32", ())]),
        ("two classes", [("input", "FP32", (4,)), ("label", "INT64", ()), ("scores", "FP32", ())]),
        ("scores", [("input", "FP32", (4,)), ("label", "INT64", ()), ("scores", "FP32", (3,))]),
        ("reduced", [("input", "FP32", (4,)), ("transformed", "FP32", (2,))]),
    ],
)
def test_a_matrix(kind: str, declared: list[Any], tmp_path: Path) -> None:
    fitted = MAKERS[kind]()
    model = load(fitted.estimator, tmp_path)
    assert specs(model) == declared
    rows = fitted.rows.astype(np.float32)
    found = dict(zip([spec[0] for spec in declared[1:]], ask(model, rows), strict=True))
    methods = {
        "label": "predict",
        "prediction": "predict",
        "probabilities": "predict_proba",
        "scores": "decision_function",
        "transformed": "transform",
    }
    for name, answer in found.items():
        expected = getattr(fitted.estimator, methods[name])(rows.astype(float))
        if answer.dtype == object:
            assert [value.decode() for value in answer] == expected.tolist()
        else:
            np.testing.assert_allclose(answer, expected, rtol=1e-6)


def test_columns_by_name(tmp_path: Path) -> None:
    fitted = MAKERS["columns"]()
    model = load(fitted.estimator, tmp_path)
    assert specs(model)[:3] == [("age", "FP32", ()), ("port", "BYTES", ()), ("fare", "FP32", ())]
    label, probabilities = ask(
        model,
        PASSENGERS["age"].to_numpy(np.float32),
        texts(PASSENGERS["port"]),
        PASSENGERS["fare"].to_numpy(np.float32),
    )
    assert label.tolist() == fitted.estimator.predict(PASSENGERS).tolist()
    np.testing.assert_allclose(probabilities, fitted.estimator.predict_proba(PASSENGERS), rtol=1e-5)


def test_texts(tmp_path: Path) -> None:
    fitted = MAKERS["texts"]()
    model = load(fitted.estimator, tmp_path)
    assert specs(model)[0] == ("text", "BYTES", ())
    label, _ = ask(model, texts(REVIEWS))
    assert [value.decode() for value in label] == fitted.estimator.predict(REVIEWS).tolist()
    broken: Array = np.array([b"\xff"], object)
    with pytest.raises(InputError, match="must be UTF-8"):
        ask(model, broken)


def test_doubles(tmp_path: Path) -> None:
    fitted = MAKERS["two numbers"]()
    model = load(fitted.estimator, tmp_path, sklearn={"datatype": "FP64"})
    assert specs(model)[0] == ("input", "FP64", (10,))
    assert ask(model, fitted.rows)[0].tolist() == fitted.estimator.predict(fitted.rows).tolist()


def test_several_labels_for_a_row(tmp_path: Path) -> None:
    estimator = MultiOutputClassifier(LogisticRegression(max_iter=300)).fit(FLOWERS, np.c_[KINDS, KINDS > 0])
    model = load(estimator, tmp_path)
    assert specs(model)[1:] == [("label", "INT64", (2,))]
    assert ask(model, FLOWERS.astype(np.float32))[0].tolist() == estimator.predict(FLOWERS).tolist()


def test_what_it_refuses_is_the_caller_s_fault(tmp_path: Path) -> None:
    model = load(logarithms().estimator, tmp_path)
    with (
        np.errstate(all="ignore"),
        pytest.raises(InputError, match="the model refuses the input: Input X contains NaN"),
    ):
        ask(model, np.full((1, 10), -5, np.float32))


def test_what_breaks_is_the_model_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(MAKERS["two numbers"]().estimator, tmp_path)

    def fail(*_: Any) -> None:
        raise SystemExit

    executor = model.executor()
    monkeypatch.setattr(executor._estimator, "predict", fail, raising=False)
    with pytest.raises(ModelError, match="model 'm' failed: SystemExit"):
        executor.execute([np.zeros((1, 10), np.float32)], ())


def test_it_keeps_to_its_threads(tmp_path: Path) -> None:
    estimator = RandomForestClassifier(4, n_jobs=-1, random_state=0).fit(FLOWERS, KINDS)
    model = load(estimator, tmp_path)
    with threadpoolctl.threadpool_limits(1):
        executor = model.executor()
        executor.execute([FLOWERS[:2].astype(np.float32)], ())
        assert executor._estimator.n_jobs == 2
        assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info()} == {2}


def test_another_version_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    real = joblib.load

    def warns(*arguments: Any) -> Any:
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name="Ridge", current_sklearn_version=sklearn.__version__, original_sklearn_version="1.0.2"
            ),
            stacklevel=1,
        )
        return real(*arguments)

    monkeypatch.setattr(joblib, "load", warns)
    with caplog.at_level(logging.WARNING):
        load(MAKERS["two numbers"]().estimator, tmp_path)
    assert "model m was fitted with scikit-learn 1.0.2; another version may answer differently" in caplog.text


def test_a_model_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="max_batch_size: an estimator takes rows, so it cannot be 0"):
        load(MAKERS["reduced"]().estimator, tmp_path, max_batch_size=0)
