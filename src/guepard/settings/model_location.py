"""What a path that should be a model really is. Looks at names and first bytes only; nothing is loaded or unpacked."""

import os
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NamedTuple

from guepard.core.errors import ConfigurationError

LocationKind = Literal["file", "class", "folder", "repository"]

_PYTHON_CLASS = re.compile(r"(?P<file>.+\.py):(?P<entry>[A-Za-z_][A-Za-z0-9_]*)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".mar", ".whl", ".nemo")
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_ARCHIVE_MAGIC = (
    *_ZIP_MAGIC,
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\x00",
    b"7z\xbc\xaf\x27\x1c",
    b"\x28\xb5\x2f\xfd",
)
_TAR_MAGIC = (b"ustar", 257)
_MODEL_FILES = (
    *("model.onnx", "model.py", "model.xml", "model.pt2", "model.pt", "config.json"),
    *("model.joblib", "model.pkl", "model.pickle", "model.skops"),
)
_PICKLES = (".joblib", ".pkl", ".pickle")  # which may be compressed
_ARCHIVED = (".pt2", ".pt", ".ts", ".pth", ".ckpt", ".bin", ".skops")  # models that are zip archives by their nature
_SUFFIXES = (".onnx", ".xml", *_ARCHIVED, *_PICKLES)
_IN_MODELS = (  # one of them at least
    *("data.pkl", "constants.pkl", "archive_format", "serialized_exported_program.json"),
    "schema.json",
)


class SourcePath(NamedTuple):
    """A file or folder, and the class for `module.py:Class`."""

    path: Path
    entry: str | None


def split_entry(text: str) -> SourcePath:
    """`module.py:Class` as its two parts; any other path stays whole."""
    match = _PYTHON_CLASS.fullmatch(text)
    return SourcePath(Path(match["file"]), match["entry"]) if match else SourcePath(Path(text), None)


def absolute(text: str, folder: Path) -> str:
    """The path seen from `folder`, without following links: a mounted configuration changes by swapping them."""
    return os.path.abspath(folder / text)


def refuse_by_name(text: str) -> None:
    """Refuse URLs and archives, whether or not there is anything at the path. Raises ConfigurationError."""
    if _URL.match(text):
        raise ConfigurationError(
            f"{text}: remote upstreams are not part of this version; name a model file, folder or module.py:Class"
        )
    if text.lower().endswith(_ARCHIVE_SUFFIXES):
        raise _archive(text)


def locate(text: str) -> LocationKind:
    """What is at the path.

    A model folder holds version folders (`1/`) or a model file; a repository holds model folders.
    Raises: ConfigurationError for what cannot be served, saying why and what to name instead.
    """
    refuse_by_name(text)
    path, entry = split_entry(text)
    require_existing(path)
    if path.is_dir():
        return _folder_kind(path)
    if entry is not None:
        return "class"
    if path.suffix not in _PICKLES and _is_archive(path) and not (path.suffix in _ARCHIVED and _may_hold_a_model(path)):
        raise _archive(text)
    if path.suffix == ".py":
        raise ConfigurationError(f"{text}: name the class too: {text}:{_first_class(path) or 'Class'}")
    if path.suffix not in _SUFFIXES:
        raise ConfigurationError(
            f"{text}: {path.suffix or 'a file without a suffix'} is not served by this version; "
            "name an .onnx, .xml, .pt2, .pt, .joblib, .pkl or .skops file, a model folder or module.py:Class"
        )
    return "file"


def require_existing(path: Path) -> None:
    """Raises ConfigurationError that names what is near the missing path."""
    if os.path.exists(path):
        return
    parent = path.parent
    if not os.path.isdir(parent):
        raise ConfigurationError(f"{path}: no such file or folder; {parent} does not exist either")
    if os.path.islink(path):
        raise ConfigurationError(f"{path}: a link to something that is not there: {os.readlink(path)}")
    names = sorted(name for name in os.listdir(parent) if not name.startswith("."))
    near = get_close_matches(path.name, names, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(str(parent / name) for name in near)}?" if near else "check the path"
    raise ConfigurationError(f"{path}: no such file or folder; {advice}")


def repository_models(repository: Path) -> list[str]:
    """Names of the folders in a model repository, sorted. Raises ConfigurationError."""
    require_existing(repository)
    try:
        return sorted(entry.name for entry in repository.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise ConfigurationError(f"{repository}: cannot be read: {error.strerror}") from None


def _folder_kind(folder: Path) -> LocationKind:
    if _has_version(folder) or any((folder / name).is_file() for name in _MODEL_FILES):
        return "folder"
    if any(_is_model_folder(folder / name) for name in repository_models(folder)):
        return "repository"
    raise ConfigurationError(
        f"{folder}: neither a model folder (version folders such as 1/, or one of "
        f"{', '.join(_MODEL_FILES)}) nor a model repository (folders that hold 1/ or config.pbtxt)"
    )


def _is_model_folder(folder: Path) -> bool:
    return _has_version(folder) or (folder / "config.pbtxt").is_file()


def _has_version(folder: Path) -> bool:
    return any(re.fullmatch(r"[1-9][0-9]*", name) for name in repository_models(folder))


def _is_archive(path: Path) -> bool:
    magic, offset = _TAR_MAGIC
    try:
        with path.open("rb") as file:
            head = file.read(offset + len(magic))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    return head.startswith(_ARCHIVE_MAGIC) or head[offset:] == magic


def _may_hold_a_model(path: Path) -> bool:
    """Whether PyTorch or skops wrote the archive. One too damaged to tell is left to those who load it."""
    with path.open("rb") as file:
        if not file.read(4).startswith(_ZIP_MAGIC):
            return False
    from zipfile import BadZipFile, ZipFile  # most servers have no such file

    try:
        with ZipFile(path) as archive:
            return any(name.rpartition("/")[2] in _IN_MODELS for name in archive.namelist())
    except (BadZipFile, OSError, ValueError, NotImplementedError):
        return True


def _archive(text: str) -> ConfigurationError:
    return ConfigurationError(f"{text}: archives are not served; unpack it and name the folder")


def _first_class(path: Path) -> str | None:
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    match = re.search(r"^class ([A-Za-z_][A-Za-z0-9_]*)", text, re.MULTILINE)
    return match[1] if match else None
