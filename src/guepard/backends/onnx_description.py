"""What is known of an ONNX model, whichever engine executes it.

`inputs` and `outputs` are nodes with a name, a type in ONNX Runtime's words, and a shape whose free dimensions are
names, None or negative.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guepard.backends.base import ModelSource
from guepard.backends.onnx_padding import find_padding
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelDescription, Profile
from guepard.core.tensor import TensorSpec

MODEL_FILE = "model.onnx"
AUTO_MAX_BATCH_SIZE: dict[Profile, int] = {"standard": 64, "low-memory": 8}

_DATATYPES = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(bfloat16)": "BF16",
    "tensor(string)": "BYTES",
}


def model_file(path: Path) -> Path:
    # Triton lets `model.onnx` be a folder that holds the file of that name and its weights, hence a second step.
    for _ in range(2):
        if path.is_dir():
            path = path / MODEL_FILE
    if not path.is_file():
        raise LoadError(f"there is no file {path.name}")
    return path


def describe(
    source: ModelSource,
    engine: str,
    precision: str,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    metadata: Mapping[str, str],
    facts: Mapping[str, Any] | None = None,
) -> ModelDescription:
    """`metadata` are the texts of the file's own. Raises: LoadError for a model that cannot be served."""
    given, made = [
        tuple(_spec(node, role) for node in nodes) for nodes, role in ((inputs, "input"), (outputs, "output"))
    ]
    policy = source.policy
    max_batch_size = _max_batch_size(source, given, made)
    padding = None
    if max_batch_size:
        padding = find_padding(source.name, inputs, outputs, metadata, policy.padding)
        given, made = _without_batch(given), _without_batch(made)
    return ModelDescription(
        platform=f"{engine}_onnx",
        backend=engine,
        inputs=given,
        outputs=made,
        max_batch_size=max_batch_size,
        batch_verified=policy.max_batch_size is not None or max_batch_size == 0,
        idempotent=True if policy.idempotent is None else policy.idempotent,
        padding=padding,
        engine=engine,
        precision=precision,
        engine_facts=facts or {},
    )


def _spec(node: Any, role: str) -> TensorSpec:
    if node.type not in _DATATYPES:
        raise LoadError(f"{role} {node.name!r} is of type {node.type}, which cannot travel; {_remedy(node.type)}")
    return TensorSpec(node.name, _DATATYPES[node.type], [_dim(dim) for dim in node.shape])


def _dim(dim: int | str | None) -> int:
    """A free dimension comes as its symbolic name, as None, or as a negative number."""
    return dim if isinstance(dim, int) and dim >= 0 else -1


def _remedy(kind: str) -> str:
    if "map(" in kind:
        return "export the classifier with plain arrays of probabilities (skl2onnx: options={'zipmap': False})"
    if kind.startswith(("seq(", "optional(")):
        return "export the model with plain tensors as inputs and outputs (ConcatFromSequence or OptionalGetElement)"
    return f"cast it to one of {', '.join(_DATATYPES.values())} inside the model"


def _max_batch_size(source: ModelSource, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> int:
    asked = source.policy.max_batch_size
    fixed = next((spec for spec in (*inputs, *outputs) if spec.dims[:1] != (-1,)), None)
    if asked is None:
        return AUTO_MAX_BATCH_SIZE[source.profile] if inputs and fixed is None else 0
    if asked and fixed is not None:
        raise LoadError(
            f"max_batch_size is {asked}, but the first dimension of tensor {fixed.name!r} is not free "
            f"(its shape is {list(fixed.dims)}); export the model with a free batch dimension or set max_batch_size: 0"
        )
    if asked and not inputs:
        raise LoadError(f"max_batch_size is {asked}, but the model has no inputs to batch; set max_batch_size: 0")
    return asked


def _without_batch(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(spec.name, spec.datatype.name, spec.dims[1:]) for spec in specs)
