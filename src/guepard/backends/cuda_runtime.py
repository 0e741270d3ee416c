"""What is asked of NVIDIA's libraries themselves: which GPUs there are, and that memory stays where it is.

They are opened by name when they are needed. Their C interfaces have been the same for a decade.

Source: CUDA Driver API (device management), CUDA Runtime API (cudaHostRegister).
"""

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

_DRIVER = "libcuda.so.1"
_OK = 0
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
_PORTABLE = 1  # cudaHostRegisterPortable: for all GPUs of the process


@dataclass(frozen=True, slots=True)
class Gpu:
    """`compute_capability` such as "9.0"; `driver` is the driver's CUDA version, such as 13000."""

    name: str
    compute_capability: str
    driver: int


class NoGpu(Exception):
    """The text completes a sentence: "there is no GPU to use: ..."."""


def find_gpus(driver: Any = None) -> tuple[Gpu, ...]:
    """The GPUs that this process may use, in CUDA's order. Raises: NoGpu. `driver`: the library, else NVIDIA's."""
    library = _open_driver() if driver is None else driver
    if library.cuInit(0) != _OK:
        raise NoGpu("NVIDIA's driver does not start; nvidia-smi may say why")
    version, count = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    library.cuDeviceGetCount(ctypes.byref(count))
    if not count.value:
        raise NoGpu("NVIDIA's driver shows none; CUDA_VISIBLE_DEVICES may hide it")
    return tuple(_gpu(library, number, version.value) for number in range(count.value))


def _gpu(library: Any, number: int, version: int) -> Gpu:
    name = ctypes.create_string_buffer(256)
    library.cuDeviceGetName(name, len(name), number)
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, number)
    library.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, number)
    return Gpu(name.value.decode(errors="replace"), f"{major.value}.{minor.value}", version)


def _open_driver() -> Any:
    try:
        return ctypes.CDLL(_DRIVER)
    except OSError:
        raise NoGpu("NVIDIA's driver is not installed (libcuda.so.1)") from None


class HostMemory:
    """Keeps memory of this process in its place, so that a GPU copies from it by itself: `pin` and `unpin`.

    `library` is CUDA's runtime.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def pin(self, address: int, size_bytes: int) -> None:
        """Raises: OSError when it may not, for lack of memory or of rights."""
        status = self._library.cudaHostRegister(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), _PORTABLE)
        if status != _OK:
            self._library.cudaGetLastError()  # which would otherwise be the next call's
            raise OSError(f"CUDA does not pin {size_bytes} bytes (error {status})")

    def unpin(self, address: int) -> None:
        self._library.cudaHostUnregister(ctypes.c_void_p(address))


@functools.cache
def host_memory(cuda_version: str) -> HostMemory | None:
    """That of CUDA's runtime in this version, such as "13.0"; None where it is not there."""
    try:
        return HostMemory(ctypes.CDLL(f"libcudart.so.{cuda_version.partition('.')[0]}"))
    except OSError:
        return None
