"""Files of samples: which there are, and what lies in them."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import orjson

from guepard.core.errors import ConfigurationError
from guepard.core.tensor import Array

JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
ARRAY_SUFFIXES = (".npz", ".npy")
TEXT_SUFFIX = ".txt"


class Sample(NamedTuple):
    """`where`: file and place, as errors say it."""

    where: str
    content: bytes


def data_files(data: str) -> list[Path]:
    """The file itself, or the files of the folder in the order of their names, hidden ones left out.

    Raises: ConfigurationError where there is nothing.
    """
    path = Path(data)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        if not files:
            raise ConfigurationError(f"--data {data}: the folder holds no files")
        return files
    if not path.exists():
        raise ConfigurationError(f"--data {data}: no such file or folder")
    if not path.is_file():
        raise ConfigurationError(f"--data {data}: neither a file nor a folder; save what it gives into a file")
    return [path]


def read_file(path: Path) -> bytes:
    """Raises: ConfigurationError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from None


def json_samples(path: Path) -> Iterator[Sample]:
    """One text of JSON after the other, as it is in the file: of `.json` the document, or the items of its list; of
    `.jsonl` each line that is not empty. Raises: ConfigurationError with the line that is no JSON, or for none.
    """
    count = 0
    if path.suffix == ".json":
        for sample in _documents(path):
            count += 1
            yield sample
    else:
        for number, line in enumerate(read_file(path).split(b"\n"), 1):
            if line.strip():
                where = f"{path} line {number}"
                _load(where, line)
                count += 1
                yield Sample(where, line.strip())
    if count == 0:
        raise ConfigurationError(f"{path}: holds no samples")


def _documents(path: Path) -> Iterator[Sample]:
    data = read_file(path).removeprefix(b"\xef\xbb\xbf")
    document = _load(str(path), data)
    if not isinstance(document, list):
        yield Sample(str(path), data.strip())
        return
    for index, raw in enumerate(msgspec.json.decode(data, type=list[msgspec.Raw])):
        yield Sample(f"{path} item {index}", bytes(raw))


def _load(where: str, data: bytes) -> object:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"{where}: not valid JSON ({error})") from None


def text_lines(path: Path) -> list[str]:
    """The lines that are not empty. Raises: ConfigurationError for text that is not UTF-8, and for none."""
    try:
        text = read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 at byte {error.start}; convert it") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ConfigurationError(f"{path}: holds no text")
    return lines


def arrays(path: Path) -> dict[str, Array]:
    """The arrays of an `.npz` by their names, or that of an `.npy` under an empty name.

    Raises: ConfigurationError, for pickled objects too, which could run code.
    """
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise ConfigurationError(
                f"{path}: holds Python objects, which are not read; save texts as arrays of str or bytes"
            ) from None
        raise ConfigurationError(f"{path}: no file of numpy ({error})") from None
    except Exception as error:  # numpy's readers let through what tokenize, ast, zlib and zipfile raise
        raise ConfigurationError(f"{path}: cannot be read as a file of numpy ({error})") from None
