"""Models that are loaded on the engine that a measurement chose, with engines that are nobody's."""

from pathlib import Path
from typing import Any

import pytest

from guepard.core.engine_options import EngineOptions
from guepard.core.model_config import InstanceGroup, ModelPolicy
from guepard.engine.model_loader import LoadedVersion, load_version
from guepard.engine.model_repository import ModelDefinition
from guepard.engine.resources import Resources
from guepard.protocols.oip_metadata import model_config
from tests.services import fake_engines
from tests.services.fake_engines import REFERENCE, FakeEngine, FakeModel


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(FakeModel, "close", lambda model: names.append(model.description.engine))
    return names


def load(folder: Path, **options: Any) -> LoadedVersion:
    path = folder / "model.bin"
    path.write_text("weights")
    policy = ModelPolicy(engines=EngineOptions(**options), instance_group=InstanceGroup(execution="thread"))
    definition = ModelDefinition("m", path, policy, backend=REFERENCE)
    return load_version(definition, "1", path, Resources(1, 2**30, cache=folder / "cache"))


def test_the_faster_engine_serves_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: list[str]
) -> None:
    fake_engines.install(monkeypatch, "slower", "faster")
    loaded = load(tmp_path)
    assert (loaded.config.engine, loaded.config.precision) == ("faster", "f32")
    assert loaded.config.engine_ratio > 1.5
    assert closed == [REFERENCE]
    told = model_config(loaded.config)["guepard"]["engine"]
    assert told["reason"].startswith(f"{told['ratio']:.2f} times as fast as reference")
    assert [candidate["engine"] for candidate in told["candidates"]] == ["slower", "faster"]
    assert "not clearly faster" in told["candidates"][0]["rejected"]
    assert 0 < told["decision_seconds"] < 10
    assert told["cached"] is False


def test_the_next_load_knows_it_and_loads_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: list[str]
) -> None:
    fake_engines.install(monkeypatch, "faster")
    load(tmp_path)
    closed.clear()
    again = load(tmp_path)
    assert again.config.engine == "faster"
    assert again.config.engine_facts["cached"] is True
    assert not closed


def test_a_mark_stands_while_the_winner_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the next server knows of a load that took this one with it."""
    fake_engines.install(monkeypatch, "faster")
    marks = []

    def marked(engine: Any, source: Any) -> Any:
        marks.append(list((tmp_path / "cache").rglob("*.loading")))
        return FakeEngine.load(engine, source)

    monkeypatch.setattr(fake_engines.Faster, "load", marked)
    for _ in range(2):
        load(tmp_path)
        assert not list((tmp_path / "cache").rglob("*.loading"))
    assert [len(each) for each in marks] == [1, 1]


def test_where_none_will_do_the_reference_that_is_loaded_already_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: list[str]
) -> None:
    fake_engines.install(monkeypatch, "wrong", "refusing")
    loaded = load(tmp_path)
    assert loaded.config.engine == REFERENCE
    assert "the cosine" in loaded.config.engine_reason
    assert "it lacks the operator Tanh" in loaded.config.engine_reason
    assert not closed


def test_a_winner_that_does_not_load_in_the_server_leaves_it_to_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake_engines.install(monkeypatch, "fickle")
    loaded = load(tmp_path)
    assert loaded.config.engine == REFERENCE
    assert loaded.config.engine_reason == "the reference engine, as fickle failed to load: its driver has gone"
    assert "its driver has gone" in caplog.text
    assert not list((tmp_path / "cache" / "engines").glob("*.json"))
