"""Where TensorRT's engines and timings are kept, below the server's folder for such things.

    <cache>/tensorrt/engines/<key>/   what the provider writes for one model on one kind of GPU
                     timings/<key>/   for all models on one kind of GPU

The provider finds engines by names that do not say what they were built from, so all that an engine depends on is in
the key of its folder: the model, both versions, the GPU, its driver, and the options.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from hashlib import file_digest, sha256
from pathlib import Path

from guepard.backends.private_folder import private_folder

TENSORRT_FOLDER = "tensorrt"
MAX_ENGINES = 32
"""Models and versions of them that engines are kept for; the one that was not loaded for longest makes room."""

_WHERE = ("trt_engine_cache_path", "trt_timing_cache_path", "device_id")


def model_digest(files: Sequence[Path]) -> str:
    """Of what the files hold. Cost: reads them."""
    digest = sha256()
    for file in files:
        with file.open("rb") as data:
            digest.update(file_digest(data, "sha256").digest())
    return digest.hexdigest()


def engine_key(model: str, versions: Mapping[str, str], gpu: Mapping[str, str], options: Mapping[str, str]) -> str:
    """Of an engine. Which of several equal GPUs, and where the files lie, is no part of it."""
    lasting = {key: value for key, value in options.items() if key not in _WHERE}
    return _key({"model": model, "versions": dict(versions), "gpu": dict(gpu), "options": lasting})


def timing_key(versions: Mapping[str, str], gpu: Mapping[str, str]) -> str:
    return _key({"versions": dict(versions), "gpu": dict(gpu)})


def engine_folder(cache: Path, key: str) -> Path:
    """Made where it is missing, and marked as used. Raises: OSError."""
    folder = private_folder(cache / TENSORRT_FOLDER / "engines" / key)
    os.utime(folder)
    _make_room(folder.parent, key)
    return folder


def timing_folder(cache: Path, key: str) -> Path:
    """Made where it is missing. Raises: OSError."""
    return private_folder(cache / TENSORRT_FOLDER / "timings" / key)


def _make_room(folder: Path, kept: str) -> None:
    # A folder that another server reads from meanwhile may go: what was read is in its memory, the rest is built anew.
    others = [entry for entry in folder.iterdir() if entry.name != kept]
    others.sort(key=lambda entry: entry.lstat().st_mtime_ns)
    for entry in others[: max(0, len(others) + 1 - MAX_ENGINES)]:
        shutil.rmtree(entry, ignore_errors=True)


def _key(recipe: Mapping[str, object]) -> str:
    return sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:40]
