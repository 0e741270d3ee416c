"""What makes a decision another one."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guepard.backends.base import ModelSource
from guepard.core.engine_options import EngineOptions, Tolerance
from guepard.core.errors import LoadError
from guepard.core.model_config import InstanceGroup, ModelPolicy
from guepard.engine.engine_trial import decision_key as module
from guepard.engine.engine_trial.decision_cache import DecisionCache
from guepard.engine.engine_trial.decision_key import decision_key, model_files
from tests.services.onnx_models import external_initializer, identity, write_model

ENGINES = ("onnxruntime", "openvino")


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    return ModelSource("m", "1", write_model(tmp_path / "m.onnx", identity()), ModelPolicy(), threads=1, cpus=2)


@pytest.fixture
def cache(tmp_path: Path) -> DecisionCache:
    return DecisionCache(tmp_path / "cache")


def with_engines(**fields: Any) -> Callable[[ModelSource], ModelSource]:
    return lambda source: replace(source, policy=ModelPolicy(engines=EngineOptions(**fields)))


def test_the_same_is_the_same(source: ModelSource, cache: DecisionCache) -> None:
    assert decision_key(source, ENGINES, cache) == decision_key(source, ENGINES, cache)


@pytest.mark.parametrize(
    "change",
    [
        lambda source: replace(source, threads=2),
        lambda source: replace(source, cpus=4),
        lambda source: replace(source, policy=ModelPolicy(max_batch_size=4)),
        lambda source: replace(source, policy=ModelPolicy(parameters={"a": 1})),
        with_engines(precision="bf16"),
        with_engines(min_precision="f32"),
        with_engines(tolerance=Tolerance(cosine=0.99)),
        with_engines(tolerance=Tolerance(top1=False)),
    ],
)
def test_what_was_asked_for_is_in_it(
    source: ModelSource, cache: DecisionCache, change: Callable[[ModelSource], ModelSource]
) -> None:
    assert decision_key(change(source), ENGINES, cache) != decision_key(source, ENGINES, cache)


def test_neither_its_name_nor_its_place_nor_where_it_runs_is(source: ModelSource, cache: DecisionCache) -> None:
    elsewhere = source.path.rename(source.path.with_name("other.onnx"))
    policy = ModelPolicy(instance_group=InstanceGroup(execution="process"))
    moved = replace(source, name="n", version="2", path=elsewhere, policy=policy)
    source.path.write_bytes(elsewhere.read_bytes())
    assert decision_key(moved, ENGINES, cache) == decision_key(source, ENGINES, cache)


def test_its_content_is(source: ModelSource, cache: DecisionCache) -> None:
    before = decision_key(source, ENGINES, cache)
    source.path.write_bytes(identity("FP64"))
    assert decision_key(source, ENGINES, cache) != before


def test_external_data_is(source: ModelSource, cache: DecisionCache, tmp_path: Path) -> None:
    write_model(tmp_path / "large", external_initializer("weights.bin"))
    weights = tmp_path / "large" / "weights.bin"
    weights.write_bytes(bytes(64))
    source = replace(source, path=tmp_path / "large")
    before = decision_key(source, ENGINES, cache)
    weights.write_bytes(b"1" + bytes(63))
    assert decision_key(source, ENGINES, cache) != before


def test_the_sample_of_the_folder_is(source: ModelSource, cache: DecisionCache, tmp_path: Path) -> None:
    write_model(tmp_path / "folder", identity())
    source = replace(source, path=tmp_path / "folder")
    before = decision_key(source, ENGINES, cache)
    (tmp_path / "folder" / "sample.json").write_text("{}")
    assert decision_key(source, ENGINES, cache) != before


@pytest.mark.parametrize(("function", "value"), [("_version", "2.0"), ("_cpu", ["other"]), ("__version__", "99")])
def test_engines_and_the_cpu_are(
    source: ModelSource, cache: DecisionCache, function: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = decision_key(source, ENGINES, cache)
    monkeypatch.setattr(module, function, value if function == "__version__" else lambda *_: value)
    assert decision_key(source, ENGINES, cache) != before


def test_another_engine_to_choose_from_is(source: ModelSource, cache: DecisionCache) -> None:
    assert decision_key(source, ENGINES[:1], cache) != decision_key(source, ENGINES, cache)


def test_files_are_not_read_again_before_they_are_written_again(
    source: ModelSource, cache: DecisionCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "is_settled", lambda _: True)
    key = decision_key(source, ENGINES, cache)

    def read(*_: object) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(module, "file_digest", read)
    assert decision_key(source, ENGINES, cache) == key
    os.utime(source.path)
    with pytest.raises(AssertionError):
        decision_key(source, ENGINES, cache)


def test_a_file_that_may_yet_be_written_is_read_again(
    source: ModelSource, cache: DecisionCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "is_settled", lambda _: False)
    decision_key(source, ENGINES, cache)
    assert cache.is_empty


def test_a_model_that_is_not_there_has_none(source: ModelSource, cache: DecisionCache, tmp_path: Path) -> None:
    with pytest.raises((OSError, LoadError)):
        decision_key(replace(source, path=tmp_path / "gone.onnx"), ENGINES, cache)


class TestFiles:
    def test_of_a_file_it_is_that(self, tmp_path: Path) -> None:
        (tmp_path / "model.pt").write_text("")
        (tmp_path / "other").write_text("")
        assert model_files(tmp_path / "model.pt") == [tmp_path / "model.pt"]

    def test_of_tritons_folder_it_is_the_file_within(self, tmp_path: Path) -> None:
        file = write_model(tmp_path / "1" / "model.onnx" / "model.onnx", identity())
        assert model_files(tmp_path / "1") == [file]

    def test_of_another_folder_it_is_all(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        for name in ("a/weights", "config.json"):
            (tmp_path / name).write_text("")
        assert model_files(tmp_path) == [tmp_path / "a/weights", tmp_path / "config.json"]
