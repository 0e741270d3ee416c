"""What an operator may ask of engines. Each engine reads its own class and `Precision`; none reads another's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Precision = Literal["f32", "bf16", "f16"]
"""Of the arithmetic inside an engine. Tensors keep the datatypes that the model declares."""

PRECISIONS: tuple[Precision, ...] = ("f32", "bf16", "f16")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far answers of a faster engine may be from the reference engine's, on samples.

    `cosine`: the least cosine between the rows of each floating-point output. `top1`: the largest value of each row
    must be at the same place.
    """

    cosine: float = 0.999
    top1: bool = True


Provider = Literal["tensorrt", "cuda", "cpu"]
"""What ONNX Runtime hands the operators of a model to. All but the last are for a GPU."""


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """Of ONNX Runtime's CUDA provider. `use_tf32` None: unless `precision` is f32.

    `options` are handed on as they are, for what has no name here.
    """

    arena_extend_strategy: Literal["next_power_of_two", "same_as_requested"] = "next_power_of_two"
    cudnn_conv_algo_search: Literal["exhaustive", "heuristic", "default"] = "heuristic"
    use_tf32: bool | None = None
    enable_cuda_graph: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TensorRtOptions:
    """Of ONNX Runtime's TensorRT provider. A size of 0 and None leave it to TensorRT.

    Profiles are text, `input:1x3x224x224` with commas between inputs, the batch included; None: worked out from what is
    known of the model.
    """

    engine_cache: bool = True
    timing_cache: bool = True
    max_workspace_size_bytes: int = 0
    builder_optimization_level: int | None = None
    int8: bool = False
    profile_min_shapes: str | None = None
    profile_opt_shapes: str | None = None
    profile_max_shapes: str | None = None
    enable_cuda_graph: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OnnxRuntimeOptions:
    """Of ONNX Runtime.

    `providers`, the most wanted first; none named: the CPU's, or the CUDA provider for models that are to run on a GPU.
    Without "cpu" among them nothing may run on the CPU. `allow_fallback`: serve with what is left when one is not
    there. `device_id` None: as the instance group says, else 0. `report_placement`: also where all runs on the CPU.
    """

    providers: tuple[Provider, ...] = ()
    device_id: int | None = None
    allow_fallback: bool = False
    report_placement: bool = False
    cuda: CudaOptions = field(default_factory=CudaOptions)
    tensorrt: TensorRtOptions = field(default_factory=TensorRtOptions)


@dataclass(frozen=True, slots=True)
class OpenVinoOptions:
    """Of OpenVINO. `num_streams` and `inference_num_threads` 0: as the CPU budget and the instances have it.

    `cache`: compiled models are kept between runs. `properties` go to the device as they are.
    """

    num_streams: int = 0
    inference_num_threads: int = 0
    cache: bool = True
    properties: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PyTorchOptions:
    """Of PyTorch. `factory` builds the module: `FILE.py:FUNCTION` beside the weights, or `PACKAGE.MODULE:FUNCTION`.

    It is called with the path and `factory_parameters`, or, where these are empty, the model's own parameters.
    `weights` names a file beside it that is loaded into the module; empty: none, or the file that is served.
    """

    factory: str = ""
    weights: str = ""
    factory_parameters: Mapping[str, Any] = field(default_factory=dict)
    compile: bool = False
    compile_mode: str = "default"
    compile_timeout_ns: int = 120 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class SklearnOptions:
    """Of scikit-learn models: whether they are converted to ONNX, and the datatype of their numbers."""

    convert: Literal["auto", "always", "never"] = "auto"
    datatype: Literal["FP32", "FP64"] = "FP32"
    convert_timeout_ns: int = 60 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class HuggingFaceOptions:
    """Of Hugging Face folders. None and empty: as the folder's own files have it; `max_length` 0 likewise."""

    task: Literal["feature-extraction", "text-classification", "token-classification"] | None = None
    pooling: Literal["mean", "cls", "max", "last"] | None = None
    normalize: bool | None = None
    aggregation: Literal["none", "simple", "first", "average", "max"] = "simple"
    max_length: int = 0
    truncation: bool = False
    onnx_file: str = ""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`engine` is one of `backends.registry.ENGINE_NAMES`, or "auto": the one that a measurement chooses.

    `precision` None leaves it open: the engine's own for an engine that was named, and for "auto" whatever is fastest
    within `tolerance` and not below `min_precision`.
    """

    engine: str = "auto"
    precision: Precision | None = None
    min_precision: Precision | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    onnxruntime: OnnxRuntimeOptions = field(default_factory=OnnxRuntimeOptions)
    openvino: OpenVinoOptions = field(default_factory=OpenVinoOptions)
    pytorch: PyTorchOptions = field(default_factory=PyTorchOptions)
    sklearn: SklearnOptions = field(default_factory=SklearnOptions)
    huggingface: HuggingFaceOptions = field(default_factory=HuggingFaceOptions)
