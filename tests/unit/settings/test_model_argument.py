"""MODEL on the command line: files, folders, classes and repositories, and all that is refused."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from guepard.core.errors import ConfigurationError
from guepard.settings.model_argument import read_model_arguments
from guepard.settings.section import Tree
from tests.unit.settings.resolving import settings_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One of each kind of model."""
    for name in ("model.onnx", "my model (v2).onnx", "a=b.onnx", ".hidden.onnx"):
        (tmp_path / name).write_bytes(b"\x08\x08")
    (tmp_path / "sentiment.py").write_text("import guepard\n\n\nclass MiniLM(guepard.Model):\n    pass\n")
    (tmp_path / "weights.h5").touch()
    (tmp_path / "net.pt2").write_bytes(b"PK\x03\x04")  # a model of PyTorch is an archive
    for path in ("versions/1", "repository/first/1", "repository/second", "empty", "flat", "coded"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "repository/second/config.pbtxt").touch()
    (tmp_path / "flat/model.onnx").touch()
    (tmp_path / "coded/model.py").touch()
    return tmp_path


def only_model(argument: str, folder: Path) -> Tree:
    (model,) = read_model_arguments([argument], folder).models
    return model


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("model.onnx", "model"),
        ("./model.onnx", "model"),
        ("other=model.onnx", "other"),
        ("my model (v2).onnx", "my_model__v2_"),
        ("a=b.onnx", "a_b"),
        ("c=a=b.onnx", "c"),
        (".hidden.onnx", "hidden"),
        ("versions", "versions"),
        ("flat/", "flat"),
        ("net.pt2", "net"),
        ("coded", "coded"),
        ("x=flat", "x"),
    ],
)
def test_names(folder: Path, argument: str, name: str) -> None:
    model = only_model(argument, folder)
    assert model["name"] == name
    assert Path(model["path"]).is_absolute()
    assert Path(model["path"]).exists()
    assert "trust" not in model


@pytest.mark.parametrize(
    ("entry", "name"),
    [("Sentiment", "sentiment"), ("MiniLM", "mini_lm"), ("HTTPModel2", "http_model2"), ("_Private", "private")],
)
def test_a_class_named_by_the_operator_is_trusted(folder: Path, entry: str, name: str) -> None:
    assert only_model(f"sentiment.py:{entry}", folder) == {
        "name": name,
        "path": f"{folder}/sentiment.py:{entry}",
        "backend": "python",
        "trust": True,
    }


def test_a_repository_is_told_from_a_model_folder(folder: Path) -> None:
    read = read_model_arguments(["repository", "versions"], folder)
    assert read.model_repository == [str(folder / "repository")]
    assert [model["name"] for model in read.models] == ["versions"]


def test_models_and_repositories_join_those_of_other_layers(folder: Path) -> None:
    (folder / "some.yaml").write_text("models: [{name: listed, path: model.onnx}]\ndefaults: {max_batch_size: 3}")
    (folder / "more").mkdir()
    settings = settings_of(
        folder, ["flat", "repository"], config="some.yaml", environment={"GUEPARD_MODEL_REPOSITORY": "more"}
    )
    assert [(model.name, model.max_batch_size) for model in settings.models] == [("listed", 3), ("flat", 3)]
    assert settings.model_repository == (str(folder / "more"), str(folder / "repository"))


@pytest.mark.parametrize(
    ("argument", "fragments"),
    [
        ("modle.onnx", ["no such file or folder", "did you mean", "/model.onnx"]),
        ("nowhere/model.onnx", ["no such file or folder", "/nowhere does not exist either"]),
        ("zzzzzzzz", ["no such file or folder; check the path"]),
        ("", ["expected PATH or NAME=PATH"]),
        ("x" * 5_000, ["no such file or folder"]),
        ("nul\0byte", ["no such file or folder"]),
        ("name=", ["write the path after name="]),
        ("a/b=model.onnx", ["'a/b' is not a model name", "starts with a letter or digit"]),
        ("all=repository", ["holds several models and takes no name"]),
        ("http://host:8000/?a=b", ["remote upstreams are not part of this version"]),
        ("grpc://host:8001", ["remote upstreams are not part of this version"]),
        ("up=https://host", ["remote upstreams are not part of this version"]),
        ("sentiment.py", ["name the class too", "sentiment.py:MiniLM"]),
        ("missing.py:Class", ["missing.py: no such file"]),
        ("weights.h5", [".h5 is not served by this version", ".onnx"]),
        ("empty", ["neither a model folder", "nor a model repository"]),
    ],
)
def test_refusals_say_what_to_write(folder: Path, argument: str, fragments: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_model_arguments([argument], folder)
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.mark.parametrize(
    "name", ["m.zip", "m.tar", "m.tar.gz", "M.TGZ", "m.mar", "m.whl", "m.nemo", "new=m.zip", "absent.tar"]
)
def test_archives_are_refused_by_suffix(folder: Path, name: str) -> None:
    if name != "absent.tar":
        (folder / name.rpartition("=")[2]).touch()
    with pytest.raises(ConfigurationError, match="unpack it and name the folder"):
        read_model_arguments([name], folder)


def test_archives_are_refused_by_content_whatever_their_name(folder: Path) -> None:
    zipped, tarred, gzipped = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("x", "y")
    for mode, stream in (("w:", tarred), ("w:gz", gzipped)):
        with tarfile.open(mode=mode, fileobj=stream) as tar:  # type: ignore[call-overload]
            tar.addfile(tarfile.TarInfo("x"), io.BytesIO())
    for stream in (zipped, tarred, gzipped):
        (folder / "sneaky.onnx").write_bytes(stream.getvalue())
        with pytest.raises(ConfigurationError, match="unpack it and name the folder"):
            read_model_arguments(["sneaky.onnx"], folder)


@pytest.mark.parametrize("suffix", [".pt", ".pt2", ".ts", ".pth", ".ckpt", ".bin"])
def test_an_archive_is_a_model_only_if_pytorch_may_have_written_it(folder: Path, suffix: str) -> None:
    file = folder / f"net{suffix}"
    for inside in ("net/data.pkl", "net/archive_format", "serialized_exported_program.json"):
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(inside, "x")
        read_model_arguments([file.name], folder)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("1/model.onnx", "x")
    for content in (file.read_bytes(), b"\x1f\x8b\x08"):
        file.write_bytes(content)
        with pytest.raises(ConfigurationError, match="archives are not served"):
            read_model_arguments([file.name], folder)


def test_a_link_that_leads_nowhere_is_not_advised_to_be_itself(folder: Path) -> None:
    (folder / "link.onnx").symlink_to("gone.onnx")
    with pytest.raises(ConfigurationError, match=r"link\.onnx: a link to something that is not there: gone\.onnx$"):
        read_model_arguments(["link.onnx"], folder)


@pytest.mark.parametrize("file", ["model.joblib", "model.pkl"])
def test_pickles_may_be_compressed(folder: Path, file: str) -> None:
    (folder / file).write_bytes(b"\x1f\x8b\x08 as gzip begins")
    assert read_model_arguments([file], folder)


def test_skops_files_are_archives(folder: Path) -> None:
    with zipfile.ZipFile(folder / "model.skops", "w") as archive:
        archive.writestr("schema.json", "{}")
    assert read_model_arguments(["model.skops"], folder)
