"""What can be said about how ONNX Runtime executes a model."""

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from guepard.core.engine_options import CudaOptions, OnnxRuntimeOptions, TensorRtOptions
from guepard.core.errors import ConfigurationError
from guepard.settings.markers import DefaultText, Positive, Reserved, Spellings
from guepard.settings.units import ByteSize

PROVIDER_SPELLINGS = {
    "TensorrtExecutionProvider": "tensorrt",
    "CUDAExecutionProvider": "cuda",
    "CPUExecutionProvider": "cpu",
}
DeviceId = Annotated[int, Meta(ge=0, le=1_023)]
BuilderLevel = Annotated[int, Meta(ge=0, le=5)]

_HAS_A_NAME = "this has an option of its own, or follows from other options; see the page on GPUs"
_OF_CUDA = Reserved(
    frozenset(
        {
            "device_id",
            "gpu_mem_limit",
            "arena_extend_strategy",
            "cudnn_conv_algo_search",
            "do_copy_in_default_stream",
            "use_tf32",
            "enable_cuda_graph",
            "has_user_compute_stream",
            "user_compute_stream",
        }
    ),
    _HAS_A_NAME,
)
_OF_TENSORRT = Reserved(
    frozenset(
        {
            "device_id",
            "trt_max_workspace_size",
            "trt_fp16_enable",
            "trt_bf16_enable",
            "trt_int8_enable",
            "trt_dla_enable",
            "trt_dla_core",
            "trt_engine_cache_enable",
            "trt_engine_cache_path",
            "trt_engine_cache_prefix",
            "trt_timing_cache_enable",
            "trt_timing_cache_path",
            "trt_builder_optimization_level",
            "trt_profile_min_shapes",
            "trt_profile_opt_shapes",
            "trt_profile_max_shapes",
            "trt_cuda_graph_enable",
            "has_user_compute_stream",
            "user_compute_stream",
        }
    ),
    _HAS_A_NAME,
)


class CudaSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    arena_extend_strategy: Annotated[
        Literal["next_power_of_two", "same_as_requested"],
        Meta(description="How the GPU memory of an instance grows: in ever larger steps, or by what is asked for."),
        Spellings({"kNextPowerOfTwo": "next_power_of_two", "kSameAsRequested": "same_as_requested"}),
    ] = "next_power_of_two"
    cudnn_conv_algo_search: Annotated[
        Literal["exhaustive", "heuristic", "default"],
        Meta(
            description="How cuDNN finds an algorithm for each new shape of a convolution: exhaustive times them all, "
            "in the path of the request that brings the shape."
        ),
        Spellings({"EXHAUSTIVE": "exhaustive", "HEURISTIC": "heuristic", "DEFAULT": "default"}),
    ] = "heuristic"
    use_tf32: Annotated[
        bool | None,
        Meta(description="May FP32 products be computed in TF32, with 10 bits of fraction?"),
        DefaultText("true, and false for `precision: f32`"),
    ] = None
    enable_cuda_graph: Annotated[
        bool,
        Meta(description="Launch all kernels of an execution at once; needs shapes that are fixed or in buckets."),
    ] = False
    options: Annotated[
        dict[str, str],
        Meta(description="Further options of the provider, in ONNX Runtime's words; each value is text."),
        _OF_CUDA,
    ] = {}


class TensorRtSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    engine_cache: Annotated[
        bool, Meta(description="Keep built engines in `server.cache_dir`, so that the next load takes seconds.")
    ] = True
    timing_cache: Annotated[
        bool, Meta(description="Keep timings of kernels there, so that similar engines are built sooner.")
    ] = True
    max_workspace_size: Annotated[
        ByteSize | None,
        Meta(description="GPU memory that an engine may use as scratch space."),
        Positive(),
        DefaultText("as ONNX Runtime has it"),
    ] = None
    builder_optimization_level: Annotated[
        BuilderLevel | None,
        Meta(description="How long TensorRT looks for fast kernels: 0 is quickest to build, 5 slowest."),
        DefaultText("as ONNX Runtime has it"),
    ] = None
    int8: Annotated[
        bool, Meta(description="May kernels be INT8? For models with QuantizeLinear and DequantizeLinear nodes.")
    ] = False
    profile_min_shapes: Annotated[
        str | None,
        Meta(description="Smallest shapes, as `ids:1x16,mask:1x16` with the batch first, of all inputs that vary."),
        DefaultText("from max_batch_size and padding.buckets"),
    ] = None
    profile_opt_shapes: Annotated[
        str | None,
        Meta(description="Shapes that the engine is made fast for."),
        DefaultText("the largest"),
    ] = None
    profile_max_shapes: Annotated[
        str | None,
        Meta(description="Largest shapes."),
        DefaultText("from max_batch_size and padding.buckets"),
    ] = None
    enable_cuda_graph: Annotated[
        bool, Meta(description="Launch all kernels of an execution at once; needs one fixed shape.")
    ] = False
    options: Annotated[
        dict[str, str],
        Meta(description="Further options of the provider, in ONNX Runtime's words; each value is text."),
        _OF_TENSORRT,
    ] = {}


class OnnxRuntimeSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    providers: Annotated[
        tuple[Annotated[Literal["tensorrt", "cuda", "cpu"], Spellings(PROVIDER_SPELLINGS)], ...],
        Meta(
            description="Execution providers, the most wanted first; without cpu no operator may run on the CPU. ONNX "
            "Runtime's names, such as CUDAExecutionProvider, are read too."
        ),
        DefaultText("[cpu], or [cuda, cpu] for `instance_group.kind: gpu`"),
    ] = ()
    device_id: Annotated[
        DeviceId | None, Meta(description="GPU of the model, the same as `instance_group.gpus` with one entry.")
    ] = None
    allow_fallback: Annotated[
        bool,
        Meta(description="Serve with the providers that are left when one that is named cannot be used."),
    ] = False
    report_placement: Annotated[
        bool,
        Meta(description="Say which operators run where also when all run on the CPU."),
    ] = False
    cuda: Annotated[CudaSettings, Meta(description="Options of the CUDA provider.")] = CudaSettings()
    tensorrt: Annotated[TensorRtSettings, Meta(description="Options of the TensorRT provider.")] = TensorRtSettings()


def to_onnxruntime_options(settings: OnnxRuntimeSettings) -> OnnxRuntimeOptions:
    cuda, tensorrt = settings.cuda, settings.tensorrt
    return OnnxRuntimeOptions(
        providers=settings.providers,
        device_id=settings.device_id,
        allow_fallback=settings.allow_fallback,
        report_placement=settings.report_placement,
        cuda=CudaOptions(
            cuda.arena_extend_strategy,
            cuda.cudnn_conv_algo_search,
            cuda.use_tf32,
            cuda.enable_cuda_graph,
            cuda.options,
        ),
        tensorrt=TensorRtOptions(
            tensorrt.engine_cache,
            tensorrt.timing_cache,
            int(tensorrt.max_workspace_size or 0),
            tensorrt.builder_optimization_level,
            tensorrt.int8,
            tensorrt.profile_min_shapes,
            tensorrt.profile_opt_shapes,
            tensorrt.profile_max_shapes,
            tensorrt.enable_cuda_graph,
            tensorrt.options,
        ),
    )


def enforce_onnxruntime(settings: OnnxRuntimeSettings, kind: str, gpus: tuple[int, ...], label: str) -> None:
    """Raise ConfigurationError unless the options fit together and to the instance group's `kind` and `gpus`."""
    for key, wrong in _faults(settings, kind, gpus):
        raise ConfigurationError(f"{label}.{key}: {wrong}")


def _faults(settings: OnnxRuntimeSettings, kind: str, gpus: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    providers = settings.providers
    on_gpu = [provider for provider in providers if provider != "cpu"]
    if len(set(providers)) < len(providers):
        yield "onnxruntime.providers", f"{', '.join(providers)} names one twice; name each once"
    if "cpu" in providers[:-1]:
        yield "onnxruntime.providers", "cpu takes every operator, so it leaves none to those after it; write it last"
    if on_gpu and kind == "cpu":
        yield "instance_group.kind", f"is cpu, and onnxruntime.providers names {on_gpu[0]}; write gpu, or leave it out"
    if providers and not on_gpu and kind == "gpu":
        yield "onnxruntime.providers", "names cpu alone, and instance_group.kind is gpu; write [cuda, cpu]"
    if len(set(gpus)) < len(gpus):
        yield "instance_group.gpus", "names a GPU twice; write a larger count for more instances on it"
    if gpus and not on_gpu and kind != "gpu":
        yield "instance_group.gpus", "nothing asks for a GPU; write kind: gpu too"
    if settings.device_id is not None and gpus not in ((), (settings.device_id,)):
        yield "onnxruntime.device_id", f"is {settings.device_id}, and instance_group.gpus differs; write one of them"
    tensorrt = "tensorrt" in providers
    if settings.tensorrt.enable_cuda_graph and not tensorrt:
        yield "onnxruntime.tensorrt.enable_cuda_graph", "tensorrt is not among the providers; add it, or leave this out"
    if settings.cuda.enable_cuda_graph and tensorrt:
        yield (
            "onnxruntime.cuda.enable_cuda_graph",
            ("a graph holds what one provider runs, and tensorrt comes before cuda; write it under tensorrt"),
        )
