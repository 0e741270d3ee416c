"""Documents about models in the words of those who ask: OpenAI, TensorFlow Serving and KServe V1.

One document serves all three, since each reads its own fields and leaves the rest.
Source: OpenAI, "Models"; TensorFlow Serving, "RESTful API", model status and metadata; KServe, "V1 Protocol".
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from guepard.core.model_config import ModelConfig
from guepard.core.states import ModelReadyState
from guepard.core.tensor import TensorSpec
from guepard.protocols.v1_json import SIGNATURE

# TensorFlow Serving's ModelVersionStatus.State.
_STATES = {
    ModelReadyState.UNKNOWN: "START",
    ModelReadyState.LOADING: "LOADING",
    ModelReadyState.READY: "AVAILABLE",
    ModelReadyState.UNLOADING: "UNLOADING",
    ModelReadyState.UNAVAILABLE: "END",
}

# TensorFlow's DataType.
_DTYPES = {
    "BOOL": "DT_BOOL",
    "FP16": "DT_HALF",
    "FP32": "DT_FLOAT",
    "FP64": "DT_DOUBLE",
    "BF16": "DT_BFLOAT16",
    "BYTES": "DT_STRING",
}

_NO_VERSION = "0"  # a 64-bit integer to TensorFlow Serving's clients, and no version that a model can have


class ModelFacts(NamedTuple):
    """What is told of one model. `created` is when it was loaded, in seconds since the epoch; 0: it is not."""

    name: str
    version: str
    state: ModelReadyState
    reason: str
    created: int
    ready: bool


def model_list(models: Sequence[ModelFacts]) -> dict[str, Any]:
    return {"object": "list", "data": [_card(facts) for facts in models], "models": [facts.name for facts in models]}


def model_status(facts: ModelFacts) -> dict[str, Any]:
    failed = facts.state is ModelReadyState.UNAVAILABLE
    status = {
        "error_code": "UNAVAILABLE" if failed else "OK",
        "error_message": facts.reason if failed else "",
    }
    version = {"version": facts.version or _NO_VERSION, "state": _STATES[facts.state], "status": status}
    return _card(facts) | {"name": facts.name, "ready": facts.ready, "model_version_status": [version]}


def _card(facts: ModelFacts) -> dict[str, Any]:
    return {"id": facts.name, "object": "model", "created": facts.created, "owned_by": "guepard"}


def signature_document(config: ModelConfig) -> dict[str, Any]:
    """TensorFlow Serving's metadata: the one signature that there is."""
    batched = config.max_batch_size > 0
    signature = {
        "inputs": {spec.name: _tensor_info(spec, batched) for spec in config.inputs},
        "outputs": {spec.name: _tensor_info(spec, batched) for spec in config.outputs},
        "method_name": "tensorflow/serving/predict",
    }
    return {
        "model_spec": {"name": config.name, "signature_name": "", "version": config.version},
        "metadata": {"signature_def": {"signature_def": {SIGNATURE: signature}}},
    }


def _tensor_info(spec: TensorSpec, batched: bool) -> dict[str, Any]:
    """64-bit integers are text, as protobuf's JSON has them."""
    name = spec.datatype.name
    shape = (-1, *spec.dims) if batched else spec.dims
    return {
        "dtype": _DTYPES.get(name, f"DT_{name}"),
        "tensor_shape": {"dim": [{"size": str(dim), "name": ""} for dim in shape], "unknown_rank": False},
        "name": spec.name,
    }
