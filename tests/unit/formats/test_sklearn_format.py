"""What files of scikit-learn are served as: found out in another process, and remembered."""

import logging
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from guepard.backends.base import ModelSource
from guepard.backends.registry import backend_for
from guepard.core.engine_options import EngineOptions, SklearnOptions
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelPolicy
from guepard.formats.base import Resolved
from guepard.formats.registry import resolve
from tests.services.sklearn_models import FLOWERS, KINDS, MAKERS, logarithms


def resolved(path: Path, *, trusted: bool = True, cache: Path | None = None, **options: Any) -> Resolved:
    policy = ModelPolicy(engines=EngineOptions(sklearn=SklearnOptions(**options)))
    return resolve(ModelSource("m", "1", path, policy, trusted=trusted, cache=cache), backend_for("auto", path))


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("forest") / "model.joblib"
    joblib.dump(MAKERS["forest"]().estimator, path)
    return path


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", fail)


def test_it_is_converted_once_and_kept(forest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = resolved(forest.parent, cache=tmp_path)
    assert found.backend == "onnxruntime"
    assert found.source.path.parent.parent == tmp_path / "sklearn"
    assert dict(found.facts) == {
        "estimator": "RandomForestClassifier",
        "conversion": "it answers as the estimator does on 512 rows made for it",
    }
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", None)
        assert resolved(forest.parent, cache=tmp_path).source.path == found.source.path

    found.source.path.chmod(0o600)
    found.source.path.write_bytes(found.source.path.read_bytes()[:-100])
    again = resolved(forest, cache=tmp_path)
    assert again.backend == "onnxruntime"
    assert again.source.path.read_bytes()[-100:] != found.source.path.read_bytes()[-200:-100]


def test_without_a_cache_it_is_converted_too(forest: Path) -> None:
    assert resolved(forest).source.path.name == "model.onnx"


def test_never(forest: Path, no_process: None) -> None:
    found = resolved(forest, convert="never")
    assert (found.backend, found.source.path) == ("sklearn", forest)


def test_what_cannot_be_converted_is_served_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "model.pkl"
    joblib.dump(logarithms().estimator, path)
    found = resolved(path, cache=tmp_path / "cache")
    assert (found.backend, found.source.path) == ("sklearn", path)
    assert "FunctionTransformer is not supported" in dict(found.facts)["conversion"]
    assert "model m is served as it is, and not as ONNX: skl2onnx does not convert it" in caplog.text
    with pytest.raises(LoadError, match=r"sklearn\.convert: always, and it is not converted: skl2onnx"):
        resolved(path, cache=tmp_path / "cache", convert="always")


class Hangs:
    def __reduce__(self) -> Any:
        return time.sleep, (60,)


class Ends:
    def __reduce__(self) -> Any:
        return os._exit, (3,)


@pytest.mark.parametrize(
    ("content", "told", "timeout_s"),
    [(Hangs(), r"took more than 2 s \(sklearn.convert_timeout\)", 2), (Ends(), "the process .* ended with 3", 60)],
)
def test_a_conversion_that_hangs_or_dies_is_not_waited_for(
    content: Any, told: str, timeout_s: int, tmp_path: Path
) -> None:
    joblib.dump(content, tmp_path / "model.joblib")
    with pytest.raises(LoadError, match=told):
        resolved(tmp_path, cache=tmp_path / "cache", convert="always", convert_timeout_ns=timeout_s * 10**9)
    assert not list((tmp_path / "cache/sklearn").glob("*/model.onnx"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"model": 1}, "holds a dict, which is no estimator"),
        (LogisticRegression(), "does not say how many features it takes: fit it"),
        (FunctionTransformer(np.log1p), "does not say how many features"),
    ],
)
def test_what_is_no_fitted_estimator(content: Any, reason: str, tmp_path: Path) -> None:
    joblib.dump(content, tmp_path / "model.joblib")
    with pytest.raises(LoadError, match=reason):
        resolved(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"), [("model.joblib", b""), ("model.pkl", b"no pickle"), ("model.skops", b"PK\x03\x04")]
)
def test_damaged_files(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LoadError, match=f"{name} is damaged, cut off, or no pickle"):
        resolved(tmp_path / name)


class TestTrust:
    def test_a_pickle_is_not_even_read(self, tmp_path: Path, no_process: None) -> None:
        (tmp_path / "model.pkl").write_bytes(b"whatever")
        with pytest.raises(LoadError, match=r"is a pickle, and loading it runs whatever code .* skops\.io\.dump"):
            resolved(tmp_path, trusted=False)

    def test_skops_of_scikit_learn_alone_needs_none(self, tmp_path: Path) -> None:
        skops.io.dump(MAKERS["names"]().estimator, tmp_path / "model.skops")
        assert resolved(tmp_path, trusted=False).backend == "onnxruntime"

    def test_skops_with_other_types_needs_it(self, tmp_path: Path) -> None:
        skops.io.dump(Mine(max_iter=300).fit(FLOWERS, KINDS), tmp_path / "model.skops")
        with pytest.raises(LoadError, match=r"types that may run code when they are made: .*Mine; start with --trust"):
            resolved(tmp_path, trusted=False)


class Mine(LogisticRegression):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator of somebody's own."""


def test_a_folder_with_two_models_is_told(forest: Path, tmp_path: Path) -> None:
    for name in ("model.joblib", "model.pkl"):
        (tmp_path / name).write_bytes(forest.read_bytes())
    with pytest.raises(LoadError, match=r"holds model\.joblib and model\.pkl; remove one"):
        resolved(tmp_path)


def test_a_cache_that_cannot_be_written_costs_the_cache_alone(
    forest: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "sklearn").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        assert resolved(forest, cache=tmp_path).backend == "onnxruntime"
    assert "what it is converted to is not kept" in caplog.text
