"""The raw engines of the benchmarks: those that execute one model all say the same of it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.models import MODELS, Array, ReferenceModel
from benchmarks.serving.engines import ENGINES, Run
from benchmarks.serving.real_model import SUBJECTS
from tests.services.onnx_models import mlp, write_model
from tests.services.torch_models import save_exported

ONNX_ENGINES = [engine for engine in ENGINES if engine != "pytorch"]


def rows(count: int) -> Array:
    return np.random.default_rng(3).normal(size=(count, 30)).astype(np.float32)


def four(count: int) -> Array:
    return np.arange(4 * count, dtype=np.float32).reshape(count, 4)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReferenceModel:
    file = write_model(tmp_path, mlp())
    monkeypatch.setattr(ReferenceModel, "path", lambda _: file)
    return ReferenceModel("mlp", "x", "y", lambda _: None, rows)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReferenceModel:
    file = save_exported(tmp_path / "model.pt2")
    monkeypatch.setattr(ReferenceModel, "path", lambda _: file)
    return ReferenceModel("linear", "x", "OUTPUT__0", lambda _: None, four, ".pt2")


def test_they_answer_alike(model: ReferenceModel) -> None:
    answers = [ENGINES[engine](model, 2, "f32")()(rows(3)).copy() for engine in ONNX_ENGINES]
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], rtol=1e-4, atol=1e-5)


def test_pytorch_runs_an_exported_program(program: ReferenceModel) -> None:
    np.testing.assert_array_equal(ENGINES["pytorch"](program, 2, "f32")()(four(3)), four(3)[:, :3] + 1)


def test_runs_of_one_model_do_not_share_their_answers(model: ReferenceModel) -> None:
    for engine in ONNX_ENGINES:
        apart(ENGINES[engine](model, 2, "f32"), rows)


def test_runs_of_one_program_do_not_share_their_answers(program: ReferenceModel) -> None:
    apart(ENGINES["pytorch"](program, 2, "f32"), four)


def apart(make: Callable[[], Run], sample: Callable[[int], Array]) -> None:
    one, other = make(), make()
    first = one(sample(2))
    kept = first.copy()
    other(sample(2) + 1)
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("engine", ["onnxruntime", "pytorch"])
def test_a_precision_that_an_engine_does_not_choose_is_refused(program: ReferenceModel, engine: str) -> None:
    with pytest.raises(ValueError, match=r"in the precision of the model|autocast"):
        ENGINES[engine](program, 1, "bf16")


def test_an_onnx_model_is_nothing_for_pytorch(model: ReferenceModel) -> None:
    with pytest.raises(ValueError, match="exported programs"):
        ENGINES["pytorch"](model, 1, "f32")


def test_the_server_is_told_the_engine_that_it_is_compared_with(model: ReferenceModel) -> None:
    for subject in SUBJECTS:
        entry = subject.entry()
        assert entry["precision"] == subject.precision
        if subject.engine == "pytorch":  # no other engine reads such a file, and it is a program
            assert (entry["trust"], "engine" in entry) == (True, False)
        else:
            assert entry["engine"] == subject.engine
    assert {subject.engine for subject in SUBJECTS} == set(ENGINES)


def test_every_reference_model_has_a_recipe_of_its_name() -> None:
    recipes = Path(__file__).parents[3] / "benchmarks" / "recipes"
    assert [name for name in MODELS if not (recipes / f"{name}.py").exists()] == []
