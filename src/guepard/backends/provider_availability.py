"""Why a provider that was asked for is not there, and what to do about it.

ONNX Runtime itself only writes a warning then, and runs everything on the CPU. What it would find out is found out
before: is the provider part of the build, is there a driver and such a GPU, can the provider's library be opened?
"""

import contextlib
import ctypes
import functools
import importlib.metadata
import importlib.util
import io
import logging
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime as ort

from guepard.backends.cuda_runtime import Gpu, NoGpu, find_gpus
from guepard.backends.onnxruntime_providers import LONG_NAMES
from guepard.core.engine_options import Provider

_LOGGER = logging.getLogger("guepard.backends.onnxruntime")
_MISSING = re.compile(r"(lib[\w+.-]+\.so[.\d]*): cannot open shared object")
_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s\"':/]+/)+")
_SHARED = "libonnxruntime_providers_shared.so"  # of which the providers' libraries use a symbol

INSTALL = "pip uninstall -y onnxruntime && pip install 'onnxruntime-gpu[cuda,cudnn]'"


class Runtime(NamedTuple):
    """The ONNX Runtime that is installed, as far as its providers go. `open_library` raises OSError with a reason."""

    package: str
    version: str
    cuda_version: str
    providers: Collection[str]
    open_library: Callable[[str], object]
    find_gpus: Callable[[], Sequence[Gpu]] = find_gpus


def why_absent(provider: Provider, gpus: Sequence[int], runtime: Runtime) -> str | None:
    """None where nothing speaks against it; else a reason that ends in a remedy, without paths."""
    if LONG_NAMES[provider] not in runtime.providers:
        return (
            f"{runtime.package} {runtime.version} is built without it; install onnxruntime-gpu in its place ({INSTALL})"
        )
    if provider == "cpu":
        return None
    try:
        found = runtime.find_gpus()
    except NoGpu as error:
        return f"there is no GPU to use: {error}"
    beyond = next((gpu for gpu in gpus if gpu >= len(found)), None)
    if beyond is not None:
        return f"GPU {beyond} was asked for, and the GPUs here are 0 to {len(found) - 1}; change instance_group.gpus"
    try:
        runtime.open_library(f"libonnxruntime_providers_{provider}.so")
    except OSError as error:
        return _why_not_opened(provider, str(error), runtime)
    return None


def _why_not_opened(provider: Provider, text: str, runtime: Runtime) -> str:
    missing = _MISSING.search(text)
    if missing is None:
        return f"its library does not load: {_FOLDERS.sub('', text)}"
    name = missing[1]
    if name.startswith(("libnvinfer", "libnvonnxparser")):
        major = name.rpartition(".")[2]
        cuda = runtime.cuda_version.partition(".")[0]
        return (
            f"its library needs {name}, which is not installed; install TensorRT {major} "
            f"(pip install 'tensorrt-cu{cuda}=={major}.*'), or add its folder to LD_LIBRARY_PATH"
        )
    return (
        f"its library needs {name}, which is not installed; install CUDA {runtime.cuda_version} and cuDNN 9 "
        "(pip install 'onnxruntime-gpu[cuda,cudnn]' nvidia-cublas), or add their folders to LD_LIBRARY_PATH"
    )


@functools.cache
def installed_runtime() -> Runtime:
    """The one of this process. Opens the libraries that pip installed for GPUs, since nothing else finds them there."""
    cuda_version = str(getattr(ort, "cuda_version", "") or "")
    providers = ort.get_available_providers()
    if LONG_NAMES["cuda"] in providers:
        _preload()
    folder = Path(ort.capi.__file__).parent
    return Runtime(_package(), ort.__version__, cuda_version, providers, functools.partial(_open, folder))


def tensorrt_version() -> str:
    """Of the TensorRT that this process has opened, as it says itself; empty where that cannot be told."""
    with contextlib.suppress(OSError, AttributeError):
        maps = Path("/proc/self/maps").read_text()
        found = re.search(r"\s(/\S*/libnvinfer\.so[.\d]*)$", maps, re.MULTILINE)
        if found:
            return str(ctypes.CDLL(found[1]).getInferLibVersion())
    return ""


def _open(folder: Path, name: str) -> Any:
    ctypes.CDLL(str(folder / _SHARED), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(folder / name))


def _package() -> str:
    for name in ("onnxruntime-gpu", "onnxruntime"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            importlib.metadata.version(name)
            return name
    return "ONNX Runtime"


def _preload() -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(Exception):  # it prints what it does not find
        ort.preload_dlls()
    if said.getvalue():
        _LOGGER.debug("ONNX Runtime on the libraries for GPUs: %s", said.getvalue())
    tensorrt = importlib.util.find_spec("tensorrt_libs")
    for folder in (tensorrt.submodule_search_locations or ()) if tensorrt is not None else ():
        for library in sorted(Path(folder).glob("libnv*.so.*")):
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(library))
