"""Why a provider is not there, and what to do about it."""

import sys
from collections.abc import Callable
from pathlib import Path

import onnxruntime as ort
import pytest

from guepard.backends.cuda_runtime import Gpu, NoGpu
from guepard.backends.provider_availability import Runtime, installed_runtime, tensorrt_version, why_absent

GPU = Gpu("a GPU", "9.0", 13_000)
ALL = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]


def runtime(
    missing: str | None = None, gpus: Callable[[], tuple[Gpu, ...]] = lambda: (GPU, GPU), providers: list[str] = ALL
) -> Runtime:
    def open_library(name: str) -> object:
        if missing is not None:
            raise OSError(missing)
        return name

    return Runtime("onnxruntime-gpu", "1.31.1", "13.0", providers, open_library, gpus)


def no_driver() -> tuple[Gpu, ...]:
    raise NoGpu("NVIDIA's driver is not installed (libcuda.so.1)")


def test_nothing_speaks_against_it() -> None:
    assert why_absent("cuda", [0, 1], runtime()) is None
    assert why_absent("tensorrt", [1], runtime()) is None
    assert why_absent("cpu", [], runtime(gpus=no_driver)) is None


def test_it_is_not_in_the_build() -> None:
    reason = why_absent("cuda", [0], runtime(providers=["CPUExecutionProvider"]))
    assert reason is not None
    assert reason.startswith("onnxruntime-gpu 1.31.1 is built without it; install onnxruntime-gpu in its place")
    assert "pip uninstall -y onnxruntime && pip install 'onnxruntime-gpu[cuda,cudnn]'" in reason


def test_no_driver() -> None:
    assert why_absent("cuda", [0], runtime(gpus=no_driver)) == (
        "there is no GPU to use: NVIDIA's driver is not installed (libcuda.so.1)"
    )


def test_a_gpu_beyond_those_that_are_there() -> None:
    reason = why_absent("cuda", [0, 2], runtime())
    assert reason == "GPU 2 was asked for, and the GPUs here are 0 to 1; change instance_group.gpus"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("libcublasLt.so.13: cannot open shared object file: No such file", "install CUDA 13.0 and cuDNN 9"),
        (
            "libnvinfer.so.10: cannot open shared object file: No such file or directory",
            r"install TensorRT 10 (pip install 'tensorrt-cu13==10.*')",
        ),
        ("libnvonnxparser.so.10: cannot open shared object file", r"install TensorRT 10"),
    ],
)
def test_a_library_that_it_needs_is_missing(text: str, remedy: str) -> None:
    reason = why_absent("tensorrt", [0], runtime(missing=text))
    assert reason is not None
    assert f"its library needs {text.partition(':')[0]}, which is not installed" in reason
    assert remedy in reason
    assert "LD_LIBRARY_PATH" in reason


def test_a_library_that_does_not_load_is_told_without_paths() -> None:
    text = "/opt/venv/lib/libonnxruntime_providers_cuda.so: undefined symbol: cudnnGetVersion"
    reason = why_absent("cuda", [0], runtime(missing=text))
    assert reason == ("its library does not load: libonnxruntime_providers_cuda.so: undefined symbol: cudnnGetVersion")


def test_the_one_that_is_installed() -> None:
    found = installed_runtime()
    assert found.version == ort.__version__
    assert found.package in ("onnxruntime", "onnxruntime-gpu")
    assert list(found.providers) == ort.get_available_providers()
    with pytest.raises(OSError):
        found.open_library("libonnxruntime_providers_of_no_kind.so")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_tensorrt_that_is_not_opened_has_no_version() -> None:
    opened = "libnvinfer.so" in Path("/proc/self/maps").read_text()
    assert bool(tensorrt_version()) is opened
