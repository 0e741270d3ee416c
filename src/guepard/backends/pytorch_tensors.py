"""Arrays as tensors of PyTorch and back, without copying where that is possible."""

from typing import Any

import numpy as np

from guepard.core.datatypes import DATATYPES
from guepard.core.errors import ModelError
from guepard.core.tensor import Array, TensorSpec

_NAMES = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "BF16": "bfloat16",
}
_DATATYPES = {name: datatype for datatype, name in _NAMES.items()}


def torch_dtype(torch: Any, datatype: str) -> Any:
    """PyTorch's type for a datatype; None for BYTES, which it has none for."""
    return getattr(torch, _NAMES[datatype]) if datatype in _NAMES else None


def datatype_of(dtype: Any) -> str | None:
    """The datatype for a type of PyTorch; None where there is none."""
    return _DATATYPES.get(str(dtype).removeprefix("torch."))


def to_tensor(torch: Any, spec: TensorSpec, array: Array) -> Any:
    """A view on `array`, which may be read-only, as it may lie in a request. Whoever writes to it needs a copy."""
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    try:
        tensor = torch.from_numpy(array)
    except ValueError:  # a single row of an array that was turned round counts as contiguous, and is not to PyTorch
        tensor = torch.from_numpy(array.copy())
    return tensor.view(torch.bfloat16) if spec.datatype.name == "BF16" else tensor


def to_array(torch: Any, tensor: Any, spec: TensorSpec, dtype: Any, *, casts: bool) -> Array:
    """The values of an output. `casts`: floats that the model computes in another precision become `dtype` again.

    Raises: ModelError for what is no tensor, or not as declared.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ModelError(f"the model returned output {spec.name!r} as {type(tensor).__name__}, which is no tensor")
    if tensor.dtype is not dtype:
        if not (casts and tensor.is_floating_point() and dtype.is_floating_point):
            found = datatype_of(tensor.dtype) or str(tensor.dtype)
            raise ModelError(
                f"the model returned output {spec.name!r} as {found}, and it is declared {spec.datatype.name}"
            )
        tensor = tensor.to(dtype)
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.contiguous()
    if spec.datatype.name == "BF16":
        tensor = tensor.view(torch.uint16)
    array: Array = tensor.numpy(force=True)
    return array


def is_representable(datatype: str) -> bool:
    return datatype in _NAMES and datatype in DATATYPES
