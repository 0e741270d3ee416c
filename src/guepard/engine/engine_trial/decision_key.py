"""What a decision is made of, as a name to find it again by."""

import json
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import file_digest, sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from guepard import __version__
from guepard.backends.base import ModelSource
from guepard.backends.file_stamp import is_settled, stamp
from guepard.backends.onnx_external_data import check_external_data
from guepard.engine.engine_trial.decision_cache import DecisionCache, FileDigest
from guepard.engine.sample_file import SAMPLE_FILE

_FORMAT = 1
_MODEL_FILE = "model.onnx"
_MOST_FILES = 10_000
_CPU_INFO = Path("/proc/cpuinfo")


def decision_key(source: ModelSource, engines: Sequence[str], cache: DecisionCache) -> str:
    """Changes with the content of the model's files, with any of `engines`, the CPU, what may be used of it, options.

    Cost: reads every file of the model once, and later only if it has been written since.
    Raises: OSError, LoadError for files that cannot be read.
    """
    policy = source.policy
    made_of = {
        "format": _FORMAT,
        "guepard": __version__,
        "model": _content(source, cache),
        "engines": {engine: _version(engine) for engine in engines},
        "cpu": _cpu(),
        "threads": [source.threads, source.cpus],
        "options": asdict(policy.engines),
        "batches": policy.max_batch_size,
        "parameters": policy.parameters,
    }
    return sha256(json.dumps(made_of, sort_keys=True, default=repr).encode()).hexdigest()[:40]


def model_files(path: Path) -> list[Path]:
    """Of what lies at `path`: an ONNX file with what it names, any other file by itself, or a folder with all in it."""
    model = path
    for _ in range(2):  # Triton lets `model.onnx` be a folder that holds the file of that name
        if (model / _MODEL_FILE).exists():
            model = model / _MODEL_FILE
    if model.is_file():
        files = [model, *(check_external_data(model) if model.suffix == ".onnx" else ())]
    else:
        files = sorted(file for file in model.rglob("*") if file.is_file())
    sample = path / SAMPLE_FILE
    if sample.is_file() and sample not in files:
        files.append(sample)
    if not files:
        raise FileNotFoundError(f"{path.name} holds no files")
    return [file.resolve() for file in files[:_MOST_FILES]]


def _content(source: ModelSource, cache: DecisionCache) -> str:
    files = model_files(source.path)
    name = sha256("\0".join(map(str, files)).encode()).hexdigest()[:40]
    now = stamp(files)
    known = cache.find_digest(name)
    if known is not None and known.stamp == now:
        return known.digest
    digest = sha256()
    for file in files:
        with file.open("rb") as data:
            digest.update(file_digest(data, "sha256").digest())
    found = digest.hexdigest()
    if is_settled(files) and stamp(files) == now:
        cache.keep_digest(name, FileDigest(now, found))
    return found


def _version(engine: str) -> str:
    try:
        return version(engine)
    except PackageNotFoundError:
        return ""


def _cpu() -> list[str]:
    """The model of the CPU and what it can do: kernels are chosen by both."""
    text = _CPU_INFO.read_text(errors="replace") if _CPU_INFO.exists() else ""
    block = text.partition("\n\n")[0]
    fields: dict[str, Any] = dict(re.findall(r"^([^:\n]*?)\s*:\s*(.*)$", block, re.MULTILINE))
    flags = fields.get("flags") or fields.get("Features") or ""
    names = ("model name", "cpu family", "model", "stepping", "CPU implementer", "CPU part")
    return [platform.machine(), *[fields.get(name, "") for name in names], *sorted(flags.split())]
