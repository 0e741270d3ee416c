"""What can be said about a model. Names and words are Triton's wherever Triton has them."""

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from guepard.core.hooks import StepSpec
from guepard.core.names import RESERVED_PARAMETERS
from guepard.settings.huggingface_options import HuggingFaceSettings
from guepard.settings.markers import (
    Alias,
    DefaultText,
    Note,
    OneEntryList,
    Plugins,
    Positive,
    Reserved,
    Spellings,
    Steps,
)
from guepard.settings.onnxruntime_options import OnnxRuntimeSettings
from guepard.settings.openvino_options import OpenVinoSettings
from guepard.settings.pytorch_options import PyTorchSettings
from guepard.settings.request_parameters import RequestParameterSettings
from guepard.settings.sklearn_options import SklearnSettings
from guepard.settings.steps import POSTPROCESS, PREPROCESS
from guepard.settings.units import ByteSize, Duration

# The look-ahead refuses a line end after the name, which `$` alone lets through in Python.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$(?!\n)"
NAME_RULE = "a name has 1 to 128 letters, digits, '_', '.' or '-', and starts with a letter or digit"

Count = Annotated[int, Meta(ge=1)]
InstanceCount = Annotated[int, Meta(ge=1, le=1_024)]  # more are a slip, and would take minutes to load
GpuNumber = Annotated[int, Meta(ge=0, le=1_023)]
BucketLength = Annotated[int, Meta(ge=1, le=2**24)]  # every request beyond the bucket before is padded to it
TokenCount = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Bound = Annotated[int, Meta(ge=0)]
TokenBound = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Dimension = Annotated[int, Meta(ge=-1)]
Datatype = Literal[
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "FP32",
    "FP64",
    "BF16",
    "BYTES",
]
TRITON_DATATYPES = {f"TYPE_{name}": name for name in get_args(Datatype) if name != "BYTES"} | {"TYPE_STRING": "BYTES"}


class TensorSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="Name of the tensor.")]
    datatype: Annotated[
        Datatype,
        Meta(description="Datatype, in the protocol's words (FP32) or Triton's (TYPE_FP32, TYPE_STRING)."),
        Spellings(TRITON_DATATYPES),
        Alias("data_type"),
    ]
    dims: Annotated[
        tuple[Dimension, ...], Meta(description="Dimensions without the batch dimension; -1 is a free one.")
    ]


class InstanceGroupSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    count: Annotated[
        InstanceCount | Literal["auto"],
        Meta(description="Executions that may run at once; auto follows from the CPUs and the backend."),
    ] = "auto"
    kind: Annotated[
        Literal["auto", "cpu", "gpu"],
        Meta(
            description="Where the model runs; auto is the CPU, unless `onnxruntime.providers` says otherwise. "
            "KIND_CPU, KIND_GPU and KIND_AUTO are read too."
        ),
        Spellings({"KIND_AUTO": "auto", "KIND_CPU": "cpu", "KIND_GPU": "gpu"}),
    ] = "auto"
    gpus: Annotated[
        tuple[GpuNumber, ...], Meta(description="GPUs of a model that runs on GPUs; each has `count` instances.")
    ] = ()
    execution: Annotated[
        Literal["auto", "inline", "thread", "process"],
        Meta(
            description="On the event loop (inline), beside it (thread) or in a process of its own (process); auto "
            "measures at warm-up."
        ),
    ] = "auto"
    wide: Annotated[
        Literal["auto", "never"],
        Meta(
            description="Whether a request that finds a heavy model idle may have all CPUs; auto measures at warm-up, "
            "never leaves each instance its own."
        ),
    ] = "auto"
    instance_timeout: Annotated[
        Duration | None,
        Meta(description="How long a process instance may run a batch before it counts as hung and is replaced."),
        Positive(),
        DefaultText("the larger of 5s and 5 times its p99"),
    ] = None
    memory_limit: Annotated[
        ByteSize | None,
        Meta(description="How large a process instance may grow before it counts as leaking and is replaced."),
        Positive(),
        DefaultText("half of the memory limit, shared by the instances"),
    ] = None


class DynamicBatchingSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    max_queue_delay: Annotated[
        Duration,
        Meta(description="How long an idle instance waits for a fuller batch; 0 sends what is there at once."),
        Alias("max_queue_delay_microseconds", microseconds=True),
    ] = Duration(0)
    preferred_batch_size: Annotated[
        tuple[Count, ...], Meta(description="Batch sizes that leave without waiting for the delay.")
    ] = ()
    max_queue_size: Annotated[Count, Meta(description="Requests that may wait; one more is answered 429.")] = 1_000


class TimeoutSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    default: Annotated[
        Duration,
        Meta(description="Deadline of a request that names none."),
        Alias("default_timeout_microseconds", microseconds=True),
        Positive(),
    ] = Duration.read("30s")
    max: Annotated[Duration, Meta(description="Longest deadline that a request may ask for."), Positive()] = (
        Duration.read("5m")
    )


class PaddingSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    inputs: Annotated[
        dict[str, int | float] | None,
        Meta(
            description="Inputs with one free dimension, and the value that fills their end up, such as input_ids: 0; "
            "empty: no padding."
        ),
        DefaultText("as the model declares"),
    ] = None
    outputs: Annotated[
        dict[str, Bound] | None,
        Meta(
            description="Outputs that are as long as the inputs, and the axis, counted without the batch, along which "
            "they are cut back to a request's own length."
        ),
        DefaultText("as the model declares"),
    ] = None
    buckets: Annotated[
        tuple[BucketLength, ...] | None,
        Meta(
            description="Lengths that batches are padded to, ascending; unset: as long as the longest request of the "
            "batch."
        ),
        DefaultText("as the model declares"),
    ] = None
    max_tokens: Annotated[
        TokenCount | None,
        Meta(description="Most that rows times length of a batch may be; a larger request runs alone."),
        DefaultText("measured at warm-up"),
    ] = None
    max_padding: Annotated[
        TokenBound | None,
        Meta(description="Most tokens of padding that a batch takes on for one more request in it."),
        DefaultText("measured at warm-up"),
    ] = None


class ToleranceSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    cosine: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Least cosine between each row of an output and the reference engine's, on samples.",
        ),
    ] = 0.999
    top1: Annotated[bool, Meta(description="Must the largest value of each row be at the same place?")] = True


class ModelOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What `defaults` may say for every model."""

    backend: Annotated[
        Literal["auto", "onnxruntime", "openvino", "pytorch", "sklearn", "huggingface", "python", "identity"],
        Meta(
            description="What loads the model; auto decides by the files that are there. Installed packages may add "
            "more."
        ),
        Plugins("guepard.backends"),
    ] = "auto"
    engine: Annotated[
        Literal["auto", "onnxruntime", "openvino"],
        Meta(
            description="Which engine executes a model that several can; auto measures at load, and stays with the "
            "reference engine unless another is faster within `tolerance`."
        ),
    ] = "auto"
    precision: Annotated[
        Literal["f32", "bf16", "f16"] | None,
        Meta(description="What the engine computes in; tensors keep their datatypes."),
        Spellings({"fp32": "f32", "fp16": "f16"}),
        DefaultText("the model's own, or for `engine: auto` the fastest within `tolerance`"),
    ] = None
    min_precision: Annotated[
        Literal["f32", "bf16", "f16"] | None,
        Meta(description="The least precision that `engine: auto` may choose; f32 keeps it at full precision."),
        Spellings({"fp32": "f32", "fp16": "f16"}),
        DefaultText("any"),
    ] = None
    tolerance: Annotated[
        ToleranceSettings, Meta(description="How far from the reference engine's answers `engine: auto` may go.")
    ] = ToleranceSettings()
    openvino: Annotated[OpenVinoSettings, Meta(description="How OpenVINO executes it.")] = OpenVinoSettings()
    pytorch: Annotated[PyTorchSettings, Meta(description="How PyTorch loads and executes it.")] = PyTorchSettings()
    onnxruntime: Annotated[OnnxRuntimeSettings, Meta(description="How ONNX Runtime executes the model.")] = (
        OnnxRuntimeSettings()
    )
    gpu_memory_limit: Annotated[
        ByteSize | None,
        Meta(
            description="Memory that all instances of the model together may take of each GPU, of what their engine "
            "allocates for tensors and weights."
        ),
        Positive(),
        DefaultText("no bound"),
    ] = None
    sklearn: Annotated[SklearnSettings, Meta(description="How an estimator of scikit-learn is served.")] = (
        SklearnSettings()
    )
    huggingface: Annotated[HuggingFaceSettings, Meta(description="What a Hugging Face folder is served as.")] = (
        HuggingFaceSettings()
    )
    max_batch_size: Annotated[
        Bound | None,
        Meta(description="Rows of one execution; 0 for a model without a batch dimension; unset is decided at load."),
    ] = None
    instance_group: Annotated[
        InstanceGroupSettings,
        Meta(description="Copies of the model that execute. Triton's list of one entry is read too."),
        OneEntryList(),
    ] = InstanceGroupSettings()
    dynamic_batching: Annotated[DynamicBatchingSettings, Meta(description="How requests are joined into batches.")] = (
        DynamicBatchingSettings()
    )
    padding: Annotated[
        PaddingSettings | None,
        Meta(description="How requests of different lengths share a batch; unset: as the model itself declares."),
    ] = None
    preprocess: Annotated[
        tuple[Annotated[StepSpec, Steps(PREPROCESS)], ...],
        Meta(description="[Steps](steps.md) from what requests hold to what the model takes, in order."),
    ] = ()
    postprocess: Annotated[
        tuple[Annotated[StepSpec, Steps(POSTPROCESS)], ...],
        Meta(description="[Steps](steps.md) from what the model gives to what callers are answered, in order."),
    ] = ()
    max_concurrency: Annotated[
        Count, Meta(description="Requests of the model executing at once; queued ones do not count.")
    ] = 4_096
    timeout: Annotated[TimeoutSettings, Meta(description="Deadlines of requests.")] = TimeoutSettings()
    load_timeout: Annotated[
        Duration,
        Meta(description="How long loading may take, warm-up and the choice of an engine included, before it fails."),
        Positive(),
    ] = Duration.read("10m")
    idempotent: Annotated[
        bool | None,
        Meta(description="May a request run again after its batch failed? Unset: engines yes, Python code as it says."),
    ] = None
    required: Annotated[bool, Meta(description="Does the server count as ready only when this model is?")] = True
    parameters: Annotated[dict[str, Any], Meta(description="Handed to the model as they are.")] = msgspec.field(
        default_factory=dict
    )
    request_parameters: Annotated[
        dict[str, RequestParameterSettings] | None,
        Meta(
            description="Custom parameters that a request may have, by name; others are answered 400. Unset: any, "
            "unchecked."
        ),
        Reserved(RESERVED_PARAMETERS, "the server itself reads this parameter; only custom ones are declared here"),
    ] = None
    trust: Annotated[
        bool | None,
        Meta(description="May the model's own Python code run? Unset: as `server.trust` says."),
    ] = None
    inputs: Annotated[
        tuple[TensorSettings, ...], Meta(description="Input tensors, for backends that cannot read them from files.")
    ] = ()
    outputs: Annotated[
        tuple[TensorSettings, ...], Meta(description="Output tensors, likewise; the identity backend needs none.")
    ] = ()


class ModelSettings(ModelOptions, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One served model: a name, where it is, and its options."""

    name: Annotated[
        Annotated[str, Meta(pattern=NAME_PATTERN)],
        Meta(description="Name in the API."),
        Note(NAME_RULE),
    ]
    path: Annotated[
        str | None,
        Meta(
            description="Model file (.onnx, .pt2, .pt), model folder or `module.py:Class`, relative to the "
            "configuration file. Only the identity backend does without."
        ),
    ] = None
