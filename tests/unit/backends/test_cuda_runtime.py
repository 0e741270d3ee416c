"""What is asked of NVIDIA's libraries, on libraries that are made up."""

import ctypes
from typing import Any

import pytest

from guepard.backends.cuda_runtime import Gpu, HostMemory, NoGpu, find_gpus, host_memory


class Driver:
    """Two GPUs, as the CUDA Driver API tells of them."""

    def __init__(self, count: int = 2, status: int = 0) -> None:
        self.count = count
        self.status = status

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return self.status

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = 13_000
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = self.count
        return 0

    def cuDeviceGetName(self, name: Any, size: int, number: int) -> int:  # noqa: N802
        name.value = f"GPU model {number}".encode()
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, number: int) -> int:  # noqa: N802
        value._obj.value = {75: 9, 76: number}[attribute]
        return 0


def test_gpus_in_their_order() -> None:
    assert find_gpus(Driver()) == (Gpu("GPU model 0", "9.0", 13_000), Gpu("GPU model 1", "9.1", 13_000))


def test_a_driver_that_does_not_start() -> None:
    with pytest.raises(NoGpu, match="does not start; nvidia-smi"):
        find_gpus(Driver(status=100))


def test_a_driver_that_shows_none() -> None:
    with pytest.raises(NoGpu, match="CUDA_VISIBLE_DEVICES"):
        find_gpus(Driver(count=0))


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guepard.backends.cuda_runtime._DRIVER", "libthere-is-none.so.1")
    with pytest.raises(NoGpu, match="driver is not installed"):
        find_gpus()


class Runtime:
    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.calls: list[tuple[str, int | None, int]] = []

    def cudaHostRegister(self, address: ctypes.c_void_p, size: ctypes.c_size_t, flags: int) -> int:  # noqa: N802
        self.calls.append(("pin", address.value, size.value))
        return self.status

    def cudaHostUnregister(self, address: ctypes.c_void_p) -> int:  # noqa: N802
        self.calls.append(("unpin", address.value, 0))
        return 0

    def cudaGetLastError(self) -> int:  # noqa: N802
        self.calls.append(("forget", None, 0))
        return self.status


def test_memory_is_pinned_and_let_go() -> None:
    runtime = Runtime()
    memory = HostMemory(runtime)
    memory.pin(2**40, 8192)
    memory.unpin(2**40)
    assert runtime.calls == [("pin", 2**40, 8192), ("unpin", 2**40, 0)]


def test_memory_that_cannot_be_pinned() -> None:
    runtime = Runtime(status=2)
    with pytest.raises(OSError, match=r"does not pin 8192 bytes \(error 2\)"):
        HostMemory(runtime).pin(4096, 8192)
    assert runtime.calls[-1] == ("forget", None, 0)


def test_without_its_library_nothing_is_pinned() -> None:
    assert host_memory("999.1") is None
