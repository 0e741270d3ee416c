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


@dataclass(frozen=True, slots=True)
class OnnxRuntimeOptions:
    """Of ONNX Runtime."""


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
    """Of scikit-learn models."""


@dataclass(frozen=True, slots=True)
class HuggingFaceOptions:
    """Of Hugging Face folders."""


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
