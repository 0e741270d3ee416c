"""Regions of shared memory that a test makes and registers through one of Triton's clients, gone with the test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import shared_memory as shm
from tritonclient.utils import triton_to_np_dtype

from tests.services.shared_objects import unique_name

Region = tuple[str, Any]  # its name with the server, and the client's handle
MakeRegion = Callable[..., Region]


@contextmanager
def registered_regions(client: Any) -> Iterator[MakeRegion]:
    """Gives what creates and registers a region of so many bytes, under a name of its own."""
    with ExitStack() as stack:

        def make(size: int, *, slash: bool = True) -> Region:
            name = unique_name()
            key = f"/{name}" if slash else name
            handle = shm.create_shared_memory_region(name, key, size)
            stack.callback(shm.destroy_shared_memory_region, handle)
            client.register_system_shared_memory(name, key, size)
            return name, handle

        yield make


def placed(
    input_class: Any, name: str, shape: tuple[int, ...], datatype: str, region: Region, size: int, offset: int = 0
) -> Any:
    """An input of the client that has `input_class`, in shared memory."""
    tensor = input_class(name, list(shape), datatype)
    tensor.set_shared_memory(region[0], size, offset)
    return tensor


def wanted(output_class: Any, name: str, region: Region, size: int, offset: int = 0) -> Any:
    """An output of the client that has `output_class`, into shared memory."""
    output = output_class(name)
    output.set_shared_memory(region[0], size, offset)
    return output


def contents(region: Region, datatype: str, shape: tuple[int, ...], offset: int = 0) -> NDArray[Any]:
    array: NDArray[Any] = np.array(
        shm.get_contents_as_numpy(region[1], triton_to_np_dtype(datatype), shape, offset)
    )  # a copy: a view would outlive the mapping
    return array
