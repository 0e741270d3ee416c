"""A table of mistakes and the words that each must be answered with."""

import re
from pathlib import Path

import pytest

from guepard.core.errors import ConfigurationError
from tests.unit.settings.resolving import settings_from, settings_of
from tests.unit.settings.wrong_files import WRONG_FILES


@pytest.mark.parametrize(("text", "fragments"), WRONG_FILES, ids=[text[:60] for text, _ in WRONG_FILES])
def test_a_mistake_is_named_with_its_remedy(tmp_path: Path, text: str, fragments: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings_from(tmp_path, text)
    for fragment in fragments:
        assert fragment in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "name", ["../secret", "a/b", ".", "..", "", "%2e%2e", "C:\\x", "x" * 129, "a\0b", "a\n", "-a", "ü", "a b"]
)
def test_model_names_that_could_mean_something_else_are_refused(tmp_path: Path, name: str) -> None:
    text = "models: [{name: " + '"' + name.encode("unicode_escape").decode() + '"' + ", path: m.onnx}]"
    with pytest.raises(ConfigurationError, match=re.escape("models[0].name: expected text")) as caught:
        settings_from(tmp_path, text)
    assert "starts with a letter or digit" in str(caught.value)


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "0", "x" * 128])
def test_plain_model_names_are_taken(tmp_path: Path, name: str) -> None:
    assert settings_from(tmp_path, f'models: [{{name: "{name}", path: m.onnx}}]').models[0].name == name


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "guepard.yaml").write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(ConfigurationError, match=r"^guepard\.yaml: line 2: not UTF-8 text"):
        settings_of(tmp_path)


def test_merge_keys_and_anchors_still_work(tmp_path: Path) -> None:
    text = "models:\n- &one {name: a, path: m.onnx, max_batch_size: 4}\n- {<<: *one, name: b}\n"
    assert [model.max_batch_size for model in settings_from(tmp_path, text).models] == [4, 4]


@pytest.mark.parametrize(
    ("flags", "environment", "fragments"),
    [
        ({"server.http_port": "x"}, {}, ["--http-port: expected an integer from 0 to 65535", '"x"']),
        ({"auth.anonymous": ["infer,all"]}, {}, ["--auth-anonymous[1]", '"all"']),
        ({}, {"GUEPARD_HTTP_PORT": "x"}, ["GUEPARD_HTTP_PORT: expected an integer"]),
        ({}, {"GUEPARD_TRUST": "maybe"}, ["GUEPARD_TRUST: expected true or false", '"maybe"']),
        ({}, {"GUEPARD_DRAIN_TIMEOUT": "30"}, ["GUEPARD_DRAIN_TIMEOUT", "write 30s or 30ms"]),
    ],
)
def test_flags_and_variables_are_named(
    tmp_path: Path, flags: dict[str, object], environment: dict[str, str], fragments: list[str]
) -> None:
    (tmp_path / "guepard.yaml").write_text("models: [{name: m, path: m.onnx}]")
    with pytest.raises(ConfigurationError) as caught:
        settings_of(tmp_path, flags=flags, environment=environment)
    for fragment in fragments:
        assert fragment in str(caught.value)
