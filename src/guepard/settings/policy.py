"""Settings of a model in the engine's words."""

from msgspec import structs

from guepard.core.engine_options import (
    EngineOptions,
    HuggingFaceOptions,
    OpenVinoOptions,
    PyTorchOptions,
    SklearnOptions,
    Tolerance,
)
from guepard.core.hooks import Hooks
from guepard.core.model_config import (
    DynamicBatching,
    InstanceGroup,
    ModelPolicy,
    RequestParameter,
    TimeoutPolicy,
)
from guepard.core.padding import PaddingRules
from guepard.core.tensor import TensorSpec
from guepard.settings.model_options import ModelSettings, TensorSettings
from guepard.settings.onnxruntime_options import to_onnxruntime_options
from guepard.settings.options import Settings


def to_policy(model: ModelSettings) -> ModelPolicy:
    """What the operator asked for; `auto` counts become 0."""
    group, batching, allowed = model.instance_group, model.dynamic_batching, model.request_parameters
    padding = model.padding
    return ModelPolicy(
        max_batch_size=model.max_batch_size,
        instance_group=InstanceGroup(
            0 if group.count == "auto" else group.count,
            group.kind,
            group.execution,
            int(group.instance_timeout or 0),
            int(group.memory_limit or 0),
            group.wide,
            group.gpus,
        ),
        dynamic_batching=DynamicBatching(
            int(batching.max_queue_delay), batching.preferred_batch_size, batching.max_queue_size
        ),
        timeout=TimeoutPolicy(int(model.timeout.default), int(model.timeout.max)),
        max_concurrency=model.max_concurrency,
        load_timeout_ns=int(model.load_timeout),
        idempotent=model.idempotent,
        parameters=model.parameters,
        request_parameters=None
        if allowed is None
        else {name: RequestParameter(**structs.asdict(rule)) for name, rule in allowed.items()},
        padding=None if padding is None else PaddingRules(**structs.asdict(padding)),
        engines=_engines(model),
        hooks=Hooks(model.preprocess, model.postprocess),
        gpu_memory_limit_bytes=int(model.gpu_memory_limit or 0),
    )


def _engines(model: ModelSettings) -> EngineOptions:
    return EngineOptions(
        engine=model.engine,
        precision=model.precision,
        min_precision=model.min_precision,
        tolerance=Tolerance(model.tolerance.cosine, model.tolerance.top1),
        openvino=OpenVinoOptions(
            model.openvino.num_streams or 0,
            model.openvino.inference_num_threads or 0,
            model.openvino.cache,
            model.openvino.properties,
        ),
        pytorch=PyTorchOptions(
            factory=model.pytorch.factory or "",
            weights=model.pytorch.weights or "",
            compile=model.pytorch.compile,
            compile_mode=model.pytorch.compile_mode,
            compile_timeout_ns=int(model.pytorch.compile_timeout),
        ),
        onnxruntime=to_onnxruntime_options(model.onnxruntime),
        sklearn=SklearnOptions(
            convert=model.sklearn.convert,
            datatype=model.sklearn.datatype,
            convert_timeout_ns=int(model.sklearn.convert_timeout),
        ),
        huggingface=HuggingFaceOptions(
            task=model.huggingface.task,
            pooling=model.huggingface.pooling,
            normalize=model.huggingface.normalize,
            aggregation=model.huggingface.aggregation,
            max_length=model.huggingface.max_length or 0,
            truncation=model.huggingface.truncation,
            onnx_file=model.huggingface.onnx_file or "",
        ),
    )


def to_tensor_specs(tensors: tuple[TensorSettings, ...]) -> tuple[TensorSpec, ...]:
    """The declared tensors, in their order."""
    return tuple(TensorSpec(tensor.name, tensor.datatype, tensor.dims) for tensor in tensors)


def repository_model(settings: Settings, name: str, path: str) -> ModelSettings:
    """A model that was found in a repository: `defaults` and nothing else. The caller has checked the name."""
    options = structs.asdict(settings.defaults)
    if options["trust"] is None:
        options["trust"] = settings.server.trust
    return ModelSettings(name=name, path=path, **options)
