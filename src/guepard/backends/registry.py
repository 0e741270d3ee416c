"""Which backend loads what. An engine is imported when the first model needs it.

Other packages add theirs by an entry point of the group `guepard.backends`. Only a model that names one has it
imported, and what is installed beside Guepard is trusted as Guepard is.
"""

import json
import logging
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from guepard.backends.base import Backend
from guepard.core.errors import LoadError

log = logging.getLogger(__name__)

AUTO = "auto"

PLUGINS = "guepard.backends"

_HOMES = {
    "onnxruntime": ("guepard.backends.onnxruntime", "OnnxRuntimeBackend"),
    "openvino": ("guepard.backends.openvino", "OpenVinoBackend"),
    "pytorch": ("guepard.backends.pytorch", "PyTorchBackend"),
    "sklearn": ("guepard.backends.sklearn", "SklearnBackend"),
    "python": ("guepard.backends.python", "PythonBackend"),
    "identity": ("guepard.backends.identity", "IdentityBackend"),
}

BACKEND_NAMES = tuple(_HOMES)

_BY_SUFFIX = {
    ".onnx": "onnxruntime",
    ".xml": "openvino",
    ".pt2": "pytorch",
    ".pt": "pytorch",
    ".ts": "pytorch",
    ".joblib": "sklearn",
    ".pkl": "sklearn",
    ".pickle": "sklearn",
    ".skops": "sklearn",
    ".py": "python",
}
_BY_FILE = {
    "model.onnx": "onnxruntime",
    "model.xml": "openvino",
    "model.pt2": "pytorch",
    "model.pt": "pytorch",
    "model.joblib": "sklearn",
    "model.pkl": "sklearn",
    "model.pickle": "sklearn",
    "model.skops": "sklearn",
    "model.py": "python",
}

# Files of this kind are looked into when one is named, but no folder is a model for holding one.
_WEIGHTS_BY_SUFFIX = {".pth": "pytorch", ".ckpt": "pytorch", ".bin": "pytorch"}

# Backends whose models may not say what they take, so that the configuration declares it.
TAKES_DECLARED = frozenset({"identity", "pytorch"})

_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".mar", ".nemo", ".whl")

_FOREIGN_SUFFIXES = {
    ".safetensors": "safetensors",
    ".gguf": "GGUF",
    ".h5": "Keras",
    ".keras": "Keras",
    ".tflite": "TensorFlow Lite",
    ".pb": "TensorFlow",
    ".plan": "TensorRT",
    ".engine": "TensorRT",
    ".mlmodel": "Core ML",
    ".ort": "ORT-format",
}
_FOREIGN_FILES = {
    "saved_model.pb": "TensorFlow SavedModel",
    "model.savedmodel": "TensorFlow SavedModel",
    "model.plan": "TensorRT",
    "model.safetensors": "safetensors",
}


# What may execute the models of a backend: its own engine first, which is the reference for the others.
ENGINES: Mapping[str, tuple[str, ...]] = {"onnxruntime": ("onnxruntime", "openvino")}

# What an engine is imported as.
_MODULES = {"onnxruntime": "onnxruntime", "openvino": "openvino"}

ENGINE_NAMES = tuple(dict.fromkeys(engine for engines in ENGINES.values() for engine in engines))


def backend_for(name: str | None, path: Path) -> str:
    """The name of the backend: `name` itself, or for `auto` or None what suits what lies at `path`.

    Raises: LoadError, with what was looked for and what to do. Never a server path.
    """
    return _detect(path) if name is None or name == AUTO else name


def get_backend(name: str | None, path: Path) -> Backend:
    """The backend called `name`, or for `auto` or None the one that suits what lies at `path`.

    Raises: LoadError, with what was looked for and what to do. Never a server path.
    """
    chosen = backend_for(name, path)
    if chosen not in _HOMES:
        return _plugin(chosen)
    module, attribute = _HOMES[chosen]
    return cast(Backend, getattr(import_module(module), attribute)())


def _plugin(name: str) -> Backend:
    """A backend of another package."""
    found = entry_points(group=PLUGINS)
    if name not in found.names:
        names = (*BACKEND_NAMES, *sorted(found.names))
        near = get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join((AUTO, *names))}"
        raise LoadError(f"there is no backend {name!r}; {hint}")
    try:
        return cast(Backend, found[name].load()())
    except Exception as error:  # code of others may raise anything
        log.exception("the backend %s of another package could not be imported", name)
        raise LoadError(f"the backend {name!r} is installed, but importing it failed: {type(error).__name__}") from None


def home(name: str) -> tuple[str, str]:
    """The module and the class of the backend `name`, which there is."""
    return _HOMES[name]


def installed_engines(backend: str) -> tuple[str, ...]:
    """Of `ENGINES`, the first, which loads the model if anything does, and others that are installed. Imports nothing.

    Cost: a look at the import path for each.
    """
    first, *others = ENGINES[backend]
    return (first, *[engine for engine in others if find_spec(_MODULES.get(engine, engine)) is not None])


def _detect(path: Path) -> str:
    if path.is_dir():
        return _detect_in_folder(path)
    file = path.name
    if not path.exists():
        raise LoadError(f"there is no file or folder {file!r}")
    backend = _BY_SUFFIX.get(path.suffix) or _WEIGHTS_BY_SUFFIX.get(path.suffix)
    if backend is not None:
        return backend
    if file.lower().endswith(_ARCHIVES):
        raise LoadError(f"{file} is an archive, and archives are not opened; unpack it and serve the folder")
    raise _no_backend(_FOREIGN_SUFFIXES.get(path.suffix.lower()), file)


def is_huggingface_folder(folder: Path) -> bool:
    """Whether `save_pretrained` wrote it: a configuration of a model, and something of a tokenizer."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return False
    is_model = isinstance(config, dict) and ("model_type" in config or "architectures" in config)
    return (is_model and any(folder.glob("tokenizer*"))) or (is_model and (folder / "vocab.txt").exists())


def _detect_in_folder(folder: Path) -> str:
    if is_huggingface_folder(folder) and not (folder / "model.py").exists():
        return "huggingface"
    found = [file for file in _BY_FILE if (folder / file).exists()]
    backends = dict.fromkeys(_BY_FILE[file] for file in found)
    if len(backends) == 1:
        return next(iter(backends))
    if found:
        choices = " or ".join(f"backend: {backend}" for backend in backends)
        raise LoadError(f"the folder holds {' and '.join(found)}; choose with {choices}")
    for file, kind in _FOREIGN_FILES.items():
        if (folder / file).exists():
            raise _no_backend(kind, file)
    others = sorted(entry.name for entry in folder.iterdir() if entry.suffix in _BY_SUFFIX)
    if others:
        raise LoadError(
            f"the folder holds no {' or '.join(_BY_FILE)}, but {', '.join(others[:3])}; "
            "rename it, or serve the file itself"
        )
    raise LoadError(f"the folder holds none of {', '.join(_BY_FILE)}, so there is no model to load")


def _no_backend(kind: str | None, file: str) -> LoadError:
    what = f"{kind} models" if kind else "such files"
    return LoadError(
        f"there is no backend for {what} ({file}) in this version; export the model to ONNX, or wrap it in a model.py"
    )
