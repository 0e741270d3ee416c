"""Documents of OIP V2 that describe the server and its models."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from guepard import __version__
from guepard.core.model_config import MILLISECOND, ModelConfig
from guepard.core.padding import NO_BOUND, PaddedInput, Padding
from guepard.core.tensor import TensorSpec
from guepard.protocols import brain_float

EXTENSIONS = (
    "model_repository",
    "model_configuration",
    "statistics",
    "trace",
    "logging",
    "binary_tensor_data",
    "parameters",
)


def server_metadata(extensions: Iterable[str] = ()) -> dict[str, Any]:
    """`extensions` come after those that every server has."""
    return {"name": "guepard", "version": __version__, "extensions": [*EXTENSIONS, *extensions]}


def model_metadata(config: ModelConfig, versions: Iterable[str]) -> dict[str, Any]:
    """Shapes include the batch dimension, as -1, where the model has one."""
    batched = config.max_batch_size > 0
    return {
        "name": config.name,
        "versions": list(versions),
        "platform": config.platform,
        "inputs": [_tensor_metadata(spec, batched) for spec in config.inputs],
        "outputs": [_tensor_metadata(spec, batched) for spec in config.outputs],
    }


def _tensor_metadata(spec: TensorSpec, batched: bool) -> dict[str, Any]:
    shape = [-1, *spec.dims] if batched else list(spec.dims)
    return {"name": spec.name, "datatype": spec.datatype.name, "shape": shape}


def model_config(config: ModelConfig) -> dict[str, Any]:
    """Triton's model configuration in its JSON form, with what is in force rather than what was asked for."""
    batching = config.dynamic_batching
    document: dict[str, Any] = {
        "name": config.name,
        "platform": config.platform,
        "backend": config.backend,
        "version_policy": {"specific": {"versions": [_integer(config.version)]}},
        "max_batch_size": config.max_batch_size,
        "input": [_tensor_config(spec) | {"optional": spec.optional} for spec in config.inputs],
        "output": [_tensor_config(spec) for spec in config.outputs],
        "instance_group": [
            {
                "name": config.name,
                "count": config.instance_count // max(1, len(config.gpus)),
                "kind": "KIND_GPU" if config.gpus else "KIND_CPU",
                "gpus": list(config.gpus),
                "execution": config.execution,
            }
        ],
        "parameters": {key: {"string_value": str(value)} for key, value in config.parameters.items()},
        "model_transaction_policy": {"decoupled": config.decoupled},
        "guepard": {
            "max_concurrency": config.max_concurrency,
            "batch_target": config.filled_rows,
            "execution_reason": config.execution_reason,
            "timeout_ms": {
                "default": config.timeout.default_ns // MILLISECOND,
                "max": config.timeout.max_ns // MILLISECOND,
            },
            "idempotent": config.idempotent,
        },
    }
    if config.engine:
        document["guepard"]["engine"] = {
            "name": config.engine,
            "precision": config.precision,
            "reason": config.engine_reason,
            **config.engine_facts,
        }
    if config.preprocess or config.postprocess:
        document["guepard"]["hooks"] = {
            "preprocess": list(config.preprocess),
            "postprocess": list(config.postprocess),
            "model_input": [_tensor_config(spec) for spec in config.batch_inputs],
        }
    if config.wide_reason:
        document["guepard"]["wide"] = {"max_rows": config.wide_rows, "reason": config.wide_reason}
    if config.request_parameters is not None:
        document["guepard"]["request_parameters"] = {
            name: {field: bound for field, bound in asdict(rule).items() if bound is not None}
            for name, rule in config.request_parameters.items()
        }
    if config.padding is not None:
        document["guepard"]["padding"] = _padding_config(config.padding, config.batch_inputs)
    if config.max_batch_size:
        document["dynamic_batching"] = {
            "preferred_batch_size": list(batching.preferred_batch_size),
            "max_queue_delay_microseconds": batching.max_queue_delay_ns // 1_000,
            "default_queue_policy": {"max_queue_size": batching.max_queue_size},
        }
    return document


def _padding_config(padding: Padding, inputs: Sequence[TensorSpec]) -> dict[str, Any]:
    """A bound that does not bind is null."""

    def bound(value: int) -> int | None:
        return None if value >= NO_BOUND else value

    def value(each: PaddedInput) -> Any:
        half = inputs[each.place].datatype.name == "BF16"
        return (brain_float.to_float32(each.value) if half else each.value).item()

    return {
        "inputs": {each.name: value(each) for each in padding.inputs},
        "outputs": {each.name: each.axis - 1 for each in padding.outputs},
        "buckets": list(padding.buckets),
        "max_tokens": bound(padding.max_tokens),
        "max_padding": bound(padding.max_padding),
    }


def _integer(version: str) -> int | str:
    return int(version) if version.isdecimal() else version


def _tensor_config(spec: TensorSpec) -> dict[str, Any]:
    name = "STRING" if spec.datatype.name == "BYTES" else spec.datatype.name
    return {"name": spec.name, "data_type": f"TYPE_{name}", "dims": list(spec.dims)}
