"""What is known about a model before and after loading. Field names are Triton's wherever Triton has the field."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from guepard.core.engine_options import EngineOptions
from guepard.core.hooks import Hooks
from guepard.core.padding import Padding, PaddingRules
from guepard.core.tensor import TensorSpec

Execution = Literal["inline", "thread", "process"]
Profile = Literal["standard", "low-memory"]

MILLISECOND = 1_000_000
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    """How many executions may run at once and where. `count` 0 stands for auto.

    `wide`: whether a batch that finds a heavy model idle may have all CPUs. For instances in processes of their own:
    `timeout_ns` is how long one may run a batch before it counts as hung, and `memory_limit_bytes` how large it may
    grow; 0 stands for auto. `gpus`: which of them have `count` instances each, where the model runs on GPUs.
    """

    count: int = 0
    kind: Literal["auto", "cpu", "gpu"] = "auto"
    execution: Execution | Literal["auto"] = "auto"
    timeout_ns: int = 0
    memory_limit_bytes: int = 0
    wide: Literal["auto", "never"] = "auto"
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DynamicBatching:
    """When a batch leaves. `max_queue_delay_ns` 0: what one turn of the event loop decoded leaves together."""

    max_queue_delay_ns: int = 0
    preferred_batch_size: tuple[int, ...] = ()
    max_queue_size: int = 1_000


@dataclass(frozen=True, slots=True)
class TimeoutPolicy:
    default_ns: int = 30 * SECOND
    max_ns: int = 300 * SECOND


@dataclass(frozen=True, slots=True)
class RequestParameter:
    """What the values of one custom request parameter may be. None where there is no such bound."""

    type: Literal["string", "integer", "number", "boolean"]
    min: int | float | None = None
    max: int | float | None = None
    values: tuple[str | bool | int | float, ...] | None = None
    max_length: int | None = None


@dataclass(frozen=True, slots=True)
class ModelPolicy:
    """What the operator asked for. `max_batch_size` None: the backend decides; 0: the model takes no batches.

    `request_parameters` are the custom parameters that a request may have; None: any. `gpu_memory_limit_bytes`: what
    all instances of the model together may take of each GPU; 0: no bound.
    """

    max_batch_size: int | None = None
    instance_group: InstanceGroup = field(default_factory=InstanceGroup)
    dynamic_batching: DynamicBatching = field(default_factory=DynamicBatching)
    timeout: TimeoutPolicy = field(default_factory=TimeoutPolicy)
    max_concurrency: int = 4_096
    load_timeout_ns: int = 600 * SECOND
    idempotent: bool | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    request_parameters: Mapping[str, RequestParameter] | None = None
    padding: PaddingRules | None = None
    engines: EngineOptions = field(default_factory=EngineOptions)
    hooks: Hooks = field(default_factory=Hooks)
    gpu_memory_limit_bytes: int = 0

    @property
    def names_batches(self) -> bool:
        """Whether something is said of the size of batches or of waiting for them."""
        batching = self.dynamic_batching
        waits = batching.max_queue_delay_ns > 0 or bool(batching.preferred_batch_size)
        return self.max_batch_size is not None or waits


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What a backend found in the model itself.

    `max_batch_size` 0: the tensors have no batch dimension and every request runs alone.
    `batch_verified` False: the first dimension is free in every tensor, but that rows are independent of their
    neighbours is still to be shown at warm-up.
    `engine` is what executes it and `precision` what it computes in, where it is an engine's to say; `engine_facts`
    are what else there is to tell of that: plain data, shown as it is. `gpus`: where it runs, if not on the CPU.
    """

    platform: str
    backend: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch_size: int = 0
    batch_verified: bool = True
    idempotent: bool = True
    releases_gil: bool = True
    decoupled: bool = False
    padding: PaddingRules | None = None
    engine: str = ""
    precision: str = ""
    engine_facts: Mapping[str, Any] = field(default_factory=dict)
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model version as it is served: the description and the policy joined, nothing left open.

    `inputs` and `outputs` are what callers see. Where steps stand before the model, `model_inputs` is what it takes
    itself; None: the same. `preprocess` and `postprocess` are the names of its steps.
    """

    name: str
    version: str
    platform: str
    backend: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch_size: int
    instance_count: int
    execution: Execution
    dynamic_batching: DynamicBatching
    timeout: TimeoutPolicy
    max_concurrency: int
    idempotent: bool
    decoupled: bool
    parameters: Mapping[str, Any]
    request_parameters: Mapping[str, RequestParameter] | None = None
    warmed_up: bool = True
    batch_target: int = 0
    execution_reason: str = ""
    wide_rows: int = 0
    wide_reason: str = ""
    padding: Padding | None = None
    engine: str = ""
    precision: str = ""
    engine_reason: str = ""
    engine_ratio: float = 0.0
    engine_facts: Mapping[str, Any] = field(default_factory=dict)
    model_inputs: tuple[TensorSpec, ...] | None = None
    preprocess: tuple[str, ...] = ()
    postprocess: tuple[str, ...] = ()
    gpus: tuple[int, ...] = ()

    @property
    def batch_inputs(self) -> tuple[TensorSpec, ...]:
        """What requests hold when they wait for a batch: what the executor takes."""
        return self.inputs if self.model_inputs is None else self.model_inputs

    @property
    def filled_rows(self) -> int:
        """How many rows a batch is filled up to. A stream of answers has one caller."""
        return 1 if self.decoupled else self.batch_target or self.max_batch_size
