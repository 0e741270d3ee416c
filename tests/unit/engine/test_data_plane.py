"""From a name and a version to what serves it."""

import pytest

from guepard.core.errors import InputError, NotFound, NotReady
from guepard.core.states import ModelReadyState
from guepard.engine.data_plane import DataPlane
from tests.unit.engine.stage import Stage


@pytest.fixture
def plane() -> DataPlane:
    plane = DataPlane()
    plane.publish(
        {"m": Stage(version="3", execution="inline").served},
        {
            "broken": (ModelReadyState.UNAVAILABLE, "there is no file model.onnx"),
            "coming": (ModelReadyState.LOADING, ""),
        },
    )
    return plane


@pytest.mark.parametrize("version", [None, "3"])
def test_the_version_that_serves(plane: DataPlane, version: str | None) -> None:
    assert plane.lookup("m", version).config.version == "3"


@pytest.mark.parametrize("version", ["", "1", "03", "-1", "0", "99999999999999999999", "latest"])
def test_any_other_version(plane: DataPlane, version: str) -> None:
    with pytest.raises(NotFound, match=f"model 'm' has no version '{version}'; it serves '3'"):
        plane.lookup("m", version)


def test_any_label(plane: DataPlane) -> None:
    with pytest.raises(NotFound, match="model 'm' has no label 'stable'"):
        plane.lookup("m", label="stable")


def test_names_are_of_all_that_are_known(plane: DataPlane) -> None:
    assert plane.names() == ["broken", "coming", "m"]


def test_an_unknown_model(plane: DataPlane) -> None:
    with pytest.raises(NotFound, match="unknown model 'nope'"):
        plane.lookup("nope")


def test_a_name_that_no_model_can_have(plane: DataPlane) -> None:
    with pytest.raises(InputError, match="is not valid"):
        plane.lookup("../m")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken", "model 'broken' is not ready (unavailable: there is no file model.onnx)"),
        ("coming", "model 'coming' is not ready (loading)"),
    ],
)
def test_a_model_that_does_not_serve_says_why_and_when_to_ask_again(plane: DataPlane, name: str, text: str) -> None:
    with pytest.raises(NotReady) as refusal:
        plane.lookup(name)
    assert refusal.value.message == text
    assert refusal.value.retry_after_ms


def test_the_generation_moves_with_every_change_and_the_table_is_a_copy(plane: DataPlane) -> None:
    before = plane.generation
    table = {"other": Stage(execution="inline").served}
    plane.publish(table, {})
    assert plane.generation == before + 1
    table.clear()
    assert plane.lookup("other")
    with pytest.raises(NotFound):
        plane.lookup("m")
