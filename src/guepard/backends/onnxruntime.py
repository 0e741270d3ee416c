"""ONNX models on ONNX Runtime's CPU provider."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guepard.backends.base import ModelSource
from guepard.backends.onnx_external_data import check_external_data
from guepard.backends.onnx_padding import find_padding
from guepard.backends.onnxruntime_arena import shrink_shared_arena
from guepard.backends.onnxruntime_errors import load_error
from guepard.backends.onnxruntime_executor import OnnxRuntimeExecutor, executor_for
from guepard.backends.onnxruntime_session import session_options
from guepard.backends.shared_weights import SharedWeights
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelDescription, Profile
from guepard.core.tensor import TensorSpec

_LOGGER = logging.getLogger("guepard.backends.onnxruntime")

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


class OnnxRuntimeBackend:
    """Loads a `.onnx` file or a folder that holds `model.onnx`. Libraries of custom operators are never loaded."""

    name = "onnxruntime"

    def load(self, source: ModelSource) -> "OnnxRuntimeModel":
        path = _model_file(source.path)
        files = (path, *check_external_data(path))
        cache = source.cache if source.profile == "standard" else None
        weights = SharedWeights(
            source.name,
            files,
            cache,
            lambda: session_options(source.threads, source.profile),
            logging.DEBUG if source.again else logging.WARNING,
        )
        if source.policy.instance_group.execution == "process" and source.policy.instance_group.count != 1:
            weights.share(source.memory_bytes)
        try:
            session = weights.session(session_options(source.threads, source.profile))
        except Exception as error:
            _LOGGER.error("model %s: %s", source.name, error)
            raise load_error(error, path) from None
        return OnnxRuntimeModel(source, session, _describe(session, source), weights)


class OnnxRuntimeModel:
    """One session, shared by all executors, and perhaps one more for wide executions."""

    def __init__(
        self, source: ModelSource, session: Any, description: ModelDescription, weights: SharedWeights
    ) -> None:
        self.description = description
        self._source = source
        self._session = session
        self._weights = weights

    def executor(self) -> OnnxRuntimeExecutor:
        return executor_for(self._session, self._source.name, self.description)

    def wide_executor(self) -> OnnxRuntimeExecutor | None:
        """None where its weights would take memory a second time that is worth a thought.

        The executors that are handed out after this call may share weights with it, those from before do not.
        """
        source, weights = self._source, self._weights
        if source.cpus <= source.threads:
            return None
        was_shared = weights.are_shared
        if weights.is_worthwhile and not weights.share(source.memory_bytes):
            return None
        if weights.are_shared and not was_shared:
            self._session = weights.session(session_options(source.threads, source.profile))
        return executor_for(
            weights.session(session_options(source.cpus, source.profile)), source.name, self.description
        )

    def trim(self) -> None:
        shrink_shared_arena()

    def health(self) -> None:
        """A session that loaded stays fit."""

    def close(self) -> None:
        self._session = None
        self._weights.release()


def _model_file(path: Path) -> Path:
    # Triton lets `model.onnx` be a folder that holds the file of that name and its weights, hence a second step.
    for _ in range(2):
        if path.is_dir():
            path = path / MODEL_FILE
    if not path.is_file():
        raise LoadError(f"there is no file {path.name}")
    return path


def _describe(session: Any, source: ModelSource) -> ModelDescription:
    # Initializers that old exporters list among the inputs are not in get_inputs(): they keep their values.
    inputs = tuple(_spec(node, "input") for node in session.get_inputs())
    outputs = tuple(_spec(node, "output") for node in session.get_outputs())
    _refuse_text_beside_bf16(inputs, outputs)
    policy = source.policy
    max_batch_size = _max_batch_size(source, inputs, outputs)
    padding = None
    if max_batch_size:
        metadata = session.get_modelmeta().custom_metadata_map
        padding = find_padding(source.name, session.get_inputs(), session.get_outputs(), metadata, policy.padding)
        inputs, outputs = _without_batch(inputs), _without_batch(outputs)
    return ModelDescription(
        platform="onnxruntime_onnx",
        backend=OnnxRuntimeBackend.name,
        inputs=inputs,
        outputs=outputs,
        max_batch_size=max_batch_size,
        batch_verified=policy.max_batch_size is not None or max_batch_size == 0,
        idempotent=True if policy.idempotent is None else policy.idempotent,
        padding=padding,
        engine=OnnxRuntimeBackend.name,
        precision="f32",
    )


def _refuse_text_beside_bf16(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    text = next((spec for spec in inputs if spec.datatype.name == "BYTES"), None)
    half = next((spec for spec in (*inputs, *outputs) if spec.datatype.name == "BF16"), None)
    if text and half:
        raise LoadError(
            f"the model joins the text input {text.name!r} with the BF16 tensor {half.name!r}, and ONNX Runtime's "
            "Python interface cannot carry both; cast the BF16 inputs and outputs to FP32 inside the model"
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
