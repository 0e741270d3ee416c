"""Options of a model → ONNX Runtime's providers and their options, as text. Nothing here asks whether there is a GPU.

The CUDA provider reads switches as 1 and 0, the TensorRT provider refuses all but True and False.

Source: ONNX Runtime's pages on the CUDA and TensorRT execution providers.
"""

from dataclasses import dataclass

from guepard.backends.base import ModelSource
from guepard.core.engine_options import CudaOptions, Precision, Provider, TensorRtOptions
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelPolicy

CPU_PROVIDER = "CPUExecutionProvider"
LONG_NAMES: dict[Provider, str] = {
    "tensorrt": "TensorrtExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "cpu": CPU_PROVIDER,
}
SHORT_NAMES: dict[str, Provider] = {long: short for short, long in LONG_NAMES.items()}

_OTHER_PRECISION = {
    True: "add tensorrt to onnxruntime.providers, or convert the model",
    False: "leave it out, or serve the model that it was converted from",
}
_ARENA = {"next_power_of_two": "kNextPowerOfTwo", "same_as_requested": "kSameAsRequested"}


@dataclass(frozen=True, slots=True)
class ProviderPlan:
    """What a model is to run on. `count` instances on each of `gpus`; `memory_bytes` for each instance, 0: no bound.

    `is_strict`: nothing may run on the CPU.
    """

    providers: tuple[Provider, ...]
    gpus: tuple[int, ...] = ()
    count: int = 1
    memory_bytes: int = 0
    is_strict: bool = False

    @property
    def on_gpu(self) -> tuple[Provider, ...]:
        return tuple(provider for provider in self.providers if provider != "cpu")

    def gpu_of(self, instance: int) -> int:
        """Of the instance with that number: they take turns, so that the first ones lie on different GPUs."""
        return self.gpus[instance % len(self.gpus)]


@dataclass(frozen=True, slots=True)
class TensorRtFiles:
    """Where engines and timings are kept, and the shapes that an engine is for. Empty: nowhere, and all are fixed."""

    engines: str = ""
    timings: str = ""
    min_shapes: str = ""
    opt_shapes: str = ""
    max_shapes: str = ""


def plan_providers(policy: ModelPolicy) -> ProviderPlan:
    """What the operator asked for, with nothing left open."""
    options, group = policy.engines.onnxruntime, policy.instance_group
    providers = options.providers or (("cuda", "cpu") if group.kind == "gpu" else ("cpu",))
    if providers == ("cpu",):
        return ProviderPlan(providers)
    gpus = group.gpus or (options.device_id or 0,)
    count = group.count or 1
    limit = policy.gpu_memory_limit_bytes
    return ProviderPlan(providers, gpus, count, limit // count, "cpu" not in providers)


def check_memory(plan: ProviderPlan, limit_bytes: int, weights_bytes: int) -> None:
    """Raise LoadError when an instance's share of the limit cannot even hold the weights."""
    if plan.memory_bytes and plan.memory_bytes < weights_bytes:
        shares = f", {_mib(plan.memory_bytes)} for each of {plan.count} instances" if plan.count > 1 else ""
        fewer = " or lower instance_group.count" if plan.count > 1 else ""
        raise LoadError(
            f"gpu_memory_limit is {_mib(limit_bytes)}{shares}, and the weights alone take {_mib(weights_bytes)}; "
            f"raise it{fewer}"
        )


def session_providers(
    plan: ProviderPlan, source: ModelSource, gpu: int, files: TensorRtFiles
) -> list[tuple[str, dict[str, str]]]:
    """The argument `providers` of a session on `gpu`. A strict plan has no entry for the CPU: it may not be named."""
    options, precision = source.policy.engines.onnxruntime, source.precision
    found: list[tuple[str, dict[str, str]]] = []
    for provider in plan.providers:
        if provider == "tensorrt":
            values = tensorrt_options(options.tensorrt, precision, gpu, plan.memory_bytes, files)
        elif provider == "cuda":
            values = cuda_options(options.cuda, precision, gpu, plan.memory_bytes)
        else:
            values = {}
        found.append((LONG_NAMES[provider], values))
    return found


def cuda_options(options: CudaOptions, precision: Precision | None, gpu: int, memory_bytes: int) -> dict[str, str]:
    """`memory_bytes` 0: no bound. Copies stay on the stream that computes: on others they would race with it."""
    values = {
        "device_id": str(gpu),
        "arena_extend_strategy": _ARENA[options.arena_extend_strategy],
        "cudnn_conv_algo_search": options.cudnn_conv_algo_search.upper(),
        "do_copy_in_default_stream": "1",
        "use_tf32": _bit(uses_tf32(options, precision)),
    }
    if memory_bytes:
        values["gpu_mem_limit"] = str(memory_bytes)
    if options.enable_cuda_graph:
        values["enable_cuda_graph"] = "1"
    return values | dict(options.options)


def uses_tf32(options: CudaOptions, precision: Precision | None) -> bool:
    return precision != "f32" if options.use_tf32 is None else options.use_tf32


def tensorrt_options(
    options: TensorRtOptions, precision: Precision | None, gpu: int, memory_bytes: int, files: TensorRtFiles
) -> dict[str, str]:
    """An engine's scratch space is bounded by `memory_bytes` too, where that is less than what was asked for."""
    values = {"device_id": str(gpu)}
    bounds = [size for size in (options.max_workspace_size_bytes, memory_bytes) if size]
    if bounds:
        values["trt_max_workspace_size"] = str(min(bounds))
    if precision in ("f16", "bf16"):
        values["trt_fp16_enable" if precision == "f16" else "trt_bf16_enable"] = "True"
    if options.int8:
        values["trt_int8_enable"] = "True"
    if options.builder_optimization_level is not None:
        values["trt_builder_optimization_level"] = str(options.builder_optimization_level)
    if options.engine_cache and files.engines:
        values |= {"trt_engine_cache_enable": "True", "trt_engine_cache_path": files.engines}
    if options.timing_cache and files.timings:
        values |= {"trt_timing_cache_enable": "True", "trt_timing_cache_path": files.timings}
    if files.max_shapes:
        values |= {
            "trt_profile_min_shapes": files.min_shapes,
            "trt_profile_opt_shapes": files.opt_shapes,
            "trt_profile_max_shapes": files.max_shapes,
        }
    if options.enable_cuda_graph:
        values["trt_cuda_graph_enable"] = "True"
    return values | dict(options.options)


def check_precision(plan: ProviderPlan, asked: Precision | None, weights: Precision) -> Precision:
    """What the model is computed in, its own weights being `weights`.

    ONNX Runtime's CPU provider has no arithmetic but FP32, whatever the weights are; its CUDA provider computes in what
    the model is written in. Raises: LoadError, with what could do it.
    """
    if "tensorrt" in plan.providers and weights == "f32":
        return asked or weights
    if plan.on_gpu:
        if asked not in (None, weights):
            raise LoadError(
                f"precision: {asked}, and the model is written in {weights}, which the {plan.on_gpu[0]} provider keeps "
                f"to; {_OTHER_PRECISION[weights == 'f32']}"
            )
        return weights
    if asked not in (None, "f32"):
        raise LoadError(
            f"precision: {asked}, and ONNX Runtime computes in f32 on the CPU; use engine: openvino, which can, or "
            "onnxruntime.providers: [tensorrt, cuda, cpu] with an NVIDIA GPU"
        )
    return "f32"


def _bit(value: bool) -> str:
    return "1" if value else "0"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB"
