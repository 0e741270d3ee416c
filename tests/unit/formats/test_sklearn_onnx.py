"""Estimators as ONNX: each answers as it does itself, also where a rounding would send a row elsewhere."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from guepard.backends.sklearn_samples import accepted_sample
from guepard.backends.sklearn_signature import Datatype, taken_by
from guepard.formats.sklearn_agreement import disagreement
from guepard.formats.sklearn_odd_numbers import OddNumbers
from guepard.formats.sklearn_onnx import NotConverted, convert
from tests.services.sklearn_models import FLOWERS, MAKERS, PASSENGERS, REVIEWS, SURVIVED, Fitted, logarithms


@pytest.fixture(autouse=True)
def others_warn() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def converted(fitted: Fitted, path: Path, datatype: Datatype = "FP32") -> str:
    """Where it disagrees."""
    taken = taken_by(fitted.estimator, datatype)
    inputs, given = accepted_sample(fitted.estimator, taken, datatype, 512)
    convert(fitted.estimator, taken, given, path)
    return disagreement(fitted.estimator, taken, given, path, inputs)


@pytest.mark.parametrize("kind", MAKERS)
def test_it_answers_as_the_estimator_does(kind: str, tmp_path: Path) -> None:
    fitted = MAKERS[kind]()
    path = tmp_path / "model.onnx"
    assert converted(fitted, path) == ""
    session = onnxruntime.InferenceSession(str(path))
    if kind == "texts":
        fed = {"text": np.array(REVIEWS, object)}
    elif kind == "columns":
        fed = {
            name: (np.array(list(values), object) if name == "port" else values.to_numpy(np.float32))
            for name, values in fitted.rows.items()
        }
    else:
        fed = {"input": fitted.rows.astype(np.float32)}
    first = session.run(None, fed)[0]
    estimator, rows = fitted.estimator, fitted.rows
    if isinstance(rows, np.ndarray):
        rows = rows.astype(np.float32).astype(float)  # as they were asked with
    expected = estimator.predict(rows) if hasattr(estimator, "predict") else estimator.transform(rows)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(first, expected, rtol=1e-3, atol=1e-3)
    else:
        assert first.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("kind", "nan", "infinity"),
    [("names", False, False), ("histograms of numbers", True, True), ("two numbers", False, False)],
)
def test_what_is_made_of_nan(kind: str, nan: bool, infinity: bool, tmp_path: Path) -> None:
    estimator = MAKERS[kind]().estimator
    taken = taken_by(estimator, "FP32")
    inputs, given = accepted_sample(estimator, taken, "FP32", 32)
    convert(estimator, taken, given, tmp_path / "model.onnx")
    odd = OddNumbers(estimator, taken, given, tmp_path / "model.onnx", inputs)
    assert (odd.objection, odd.takes_nan, odd.takes_infinity) == ("", nan, infinity)


def test_nan_that_is_refused_in_some_columns_keeps_the_estimator(tmp_path: Path) -> None:
    rows = PASSENGERS[["age", "fare"]]
    columns = make_column_transformer((SimpleImputer(), ["age"]), (StandardScaler(), ["fare"]))
    estimator = make_pipeline(columns, LogisticRegression(max_iter=500)).fit(rows, SURVIVED)
    taken = taken_by(estimator, "FP32")
    inputs, given = accepted_sample(estimator, taken, "FP32", 32)
    convert(estimator, taken, given, tmp_path / "model.onnx")
    odd = OddNumbers(estimator, taken, given, tmp_path / "model.onnx", inputs)
    assert odd.objection.startswith("it takes NaN in some columns and refuses it in others") or "NaN" in odd.objection


def test_doubles_too(tmp_path: Path) -> None:
    fitted = MAKERS["two numbers"]()
    assert converted(fitted, tmp_path / "model.onnx", "FP64") == ""
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    (answer,) = session.run(None, {"input": fitted.rows})
    np.testing.assert_allclose(answer, fitted.estimator.predict(fitted.rows), rtol=1e-9)


@pytest.mark.parametrize(
    ("kind", "other", "told"),
    [
        ("forest", "boosting", "differs"),
        ("names", "forest", "differs"),
        ("two numbers", "histograms of numbers", "shape"),
    ],
)
def test_another_model_is_noticed(kind: str, other: str, told: str, tmp_path: Path) -> None:
    assert converted(MAKERS[kind](), tmp_path / "model.onnx") == ""
    estimator = MAKERS[other]().estimator
    taken = taken_by(estimator, "FP32")
    inputs, given = accepted_sample(estimator, taken, "FP32", 64)
    assert told in disagreement(estimator, taken, given, tmp_path / "model.onnx", inputs)


def test_a_threshold_that_was_rounded_up_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As skl2onnx by itself rounds those of trees over histograms."""
    monkeypatch.setattr("skl2onnx.common.tree_ensemble.sklearn_threshold", lambda value, dtype, mode: np.float64(value))
    assert "as ONNX prediction differs" in converted(MAKERS["histograms of numbers"](), tmp_path / "model.onnx")


def test_what_has_no_converter_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotConverted, match="skl2onnx does not convert it: RuntimeError: FunctionTransformer"):
        converted(logarithms(), tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_a_model_that_does_not_run_says_so(tmp_path: Path) -> None:
    fitted = MAKERS["forest"]()
    taken = taken_by(fitted.estimator, "FP32")
    (tmp_path / "model.onnx").write_bytes(b"no model")
    told = disagreement(
        fitted.estimator,
        taken,
        accepted_sample(fitted.estimator, taken, "FP32").given,
        tmp_path / "model.onnx",
        [FLOWERS.astype(np.float32)],
    )
    assert told.startswith("as ONNX it does not run")
