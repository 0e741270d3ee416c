"""The raw engines of the benchmarks: all of them say the same of one model."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.models import Array, ReferenceModel
from benchmarks.serving.engines import ENGINES
from benchmarks.serving.real_model import SUBJECTS
from tests.services.onnx_models import mlp, write_model


def rows(count: int) -> Array:
    return np.random.default_rng(3).normal(size=(count, 30)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReferenceModel:
    file = write_model(tmp_path, mlp())
    monkeypatch.setattr(ReferenceModel, "path", lambda _: file)
    return ReferenceModel("mlp", "x", "y", lambda _: None, rows)


def test_they_answer_alike(model: ReferenceModel) -> None:
    answers = [engine(model, 2, "f32")()(rows(3)).copy() for engine in ENGINES.values()]
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], rtol=1e-4, atol=1e-5)


def test_runs_of_one_model_do_not_share_their_answers(model: ReferenceModel) -> None:
    for engine in ENGINES.values():
        make = engine(model, 2, "f32")
        one, other = make(), make()
        first = one(rows(2))
        kept = first.copy()
        other(rows(2) + 1)
        np.testing.assert_array_equal(first, kept)


def test_a_precision_that_an_engine_does_not_choose_is_refused(model: ReferenceModel) -> None:
    with pytest.raises(ValueError, match="in the precision of the model"):
        ENGINES["onnxruntime"](model, 1, "bf16")


def test_the_server_is_told_the_engine_that_it_is_compared_with(model: ReferenceModel) -> None:
    for subject in SUBJECTS:
        assert subject.entry()["engine"] == subject.engine
        assert subject.entry()["precision"] == subject.precision
    assert {subject.engine for subject in SUBJECTS} == set(ENGINES)
