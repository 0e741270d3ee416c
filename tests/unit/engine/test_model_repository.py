"""Which models and versions a repository folder holds, whatever else lies in it."""

import logging
from pathlib import Path

import pytest

from guepard.core.errors import LoadError
from guepard.core.model_config import ModelPolicy
from guepard.core.names import is_version
from guepard.engine.model_repository import ModelDefinition, ModelRepository

TEMPLATE = ModelDefinition("template", Path(), ModelPolicy(max_batch_size=3), trusted=True, required=False)


def repository_of(*folders: Path, named: tuple[ModelDefinition, ...] = ()) -> ModelRepository:
    return ModelRepository(named, folders, TEMPLATE)


def model_folder(path: Path, *versions: str) -> ModelDefinition:
    for version in versions:
        (path / version).mkdir(parents=True)
    path.mkdir(parents=True, exist_ok=True)
    return ModelDefinition(path.name, path, ModelPolicy())


class TestVersions:
    def test_only_plain_decimals_are_versions_and_each_other_one_is_reported_once(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """triton-inference-server/server#1366: `01` was taken as version 1, or ignored in silence."""
        ignored = ["01", "-1", "1.0", "+2", " 3", "９", "9223372036854775808", "0", "007"]
        definition = model_folder(tmp_path / "m", "1", "4294967296", *ignored, "assets", ".cache", "__pycache__")
        repository = repository_of()
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                version, path = repository.latest_version(definition)
        assert (version, path) == ("4294967296", tmp_path / "m" / "4294967296")
        reported = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
        assert sorted(reported) == sorted(ignored)

    @pytest.mark.parametrize("text", ["-1", "0", "01", "18446744073709551615", "99999999999999999999", "1\n", "", "１"])
    def test_what_is_no_version(self, text: str) -> None:
        """triton-inference-server/server#7052: -1 became 18446744073709551615 and froze the server."""
        assert not is_version(text)

    @pytest.mark.parametrize("text", ["1", "10", "9223372036854775807"])
    def test_what_is_one(self, text: str) -> None:
        assert is_version(text)

    def test_the_highest_number_wins_and_not_the_last_name(self, tmp_path: Path) -> None:
        definition = model_folder(tmp_path / "m", "9", "10", "2")
        assert repository_of().latest_version(definition)[0] == "10"

    def test_a_file_called_like_a_version_is_none(self, tmp_path: Path) -> None:
        definition = model_folder(tmp_path / "m", "1")
        (tmp_path / "m" / "2").write_text("")
        assert repository_of().latest_version(definition)[0] == "1"

    def test_a_model_without_version_folders_is_version_1(self, tmp_path: Path) -> None:
        definition = model_folder(tmp_path / "m")
        (tmp_path / "m" / "model.onnx").write_bytes(b"")
        assert repository_of().latest_version(definition) == ("1", tmp_path / "m")

    def test_a_configuration_of_triton_is_pointed_out_once(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        definition = model_folder(tmp_path / "m", "1")
        (tmp_path / "m" / "config.pbtxt").write_text("max_batch_size: 8")
        repository = repository_of()
        with caplog.at_level(logging.WARNING):
            assert [repository.latest_version(definition)[0] for _ in range(2)] == ["1", "1"]
        assert [record.getMessage() for record in caplog.records] == [
            "m/config.pbtxt is not read; put its options into guepard.yaml"
        ]

    def test_a_single_file_is_version_1(self, tmp_path: Path) -> None:
        definition = ModelDefinition("m", tmp_path / "m.onnx", ModelPolicy())
        assert repository_of().latest_version(definition) == ("1", tmp_path / "m.onnx")

    def test_an_empty_folder_has_nothing_to_load(self, tmp_path: Path) -> None:
        with pytest.raises(LoadError, match="the model folder is empty"):
            repository_of().latest_version(model_folder(tmp_path / "m"))


class TestModels:
    def test_every_folder_is_a_model_with_the_template_s_options(self, tmp_path: Path) -> None:
        model_folder(tmp_path / "a", "1")
        model_folder(tmp_path / "b", "1")
        definitions = repository_of(tmp_path).definitions()
        assert sorted(definitions) == ["a", "b"]
        found = definitions["a"]
        assert (found.policy.max_batch_size, found.trusted, found.required) == (3, True, False)
        assert found.path == tmp_path / "a"

    def test_it_is_read_afresh(self, tmp_path: Path) -> None:
        repository = repository_of(tmp_path)
        assert repository.find("late") is None
        model_folder(tmp_path / "late", "1")
        assert repository.find("late") is not None

    def test_a_named_model_hides_a_folder_of_that_name(self, tmp_path: Path) -> None:
        model_folder(tmp_path / "a", "1")
        named = ModelDefinition("a", tmp_path / "elsewhere.onnx", ModelPolicy())
        assert repository_of(tmp_path, named=(named,)).find("a") is named

    def test_the_first_of_two_folders_wins(self, tmp_path: Path) -> None:
        for folder in ("first", "second"):
            model_folder(tmp_path / folder / "a", "1")
        repository = repository_of(tmp_path / "first", tmp_path / "second")
        assert repository.definitions()["a"].path == tmp_path / "first" / "a"

    def test_names_that_no_url_can_carry_are_reported_once(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        for name in ("with space", "a%2fb", "ü", "x" * 129):
            model_folder(tmp_path / name, "1")
        repository = repository_of(tmp_path)
        assert repository.definitions() == {}
        assert repository.definitions() == {}
        assert len(caplog.records) == 4

    @pytest.mark.parametrize("name", ["..", ".", "../secret", "a/b", "/etc", "a\0b", "", "~"])
    def test_a_name_from_a_client_never_becomes_a_path(self, tmp_path: Path, name: str) -> None:
        model_folder(tmp_path / "secret", "1")
        assert repository_of(tmp_path / "models").find(name) is None

    def test_a_folder_that_cannot_be_read_is_an_error_without_its_path(self, tmp_path: Path) -> None:
        with pytest.raises(LoadError) as failure:
            repository_of(tmp_path / "gone").definitions()
        assert str(failure.value) == "the folder 'gone' cannot be read: No such file or directory"
