"""The statistics of one model version in the JSON shape of Triton's statistics extension.

Plain frozen dataclasses: any JSON encoder writes them field by field, in this order.
Source: Triton server, docs/protocol/extension_statistics.md; the meaning of each count, Triton core, infer_stats.cc.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class DurationStat:
    """How often something happened and how many nanoseconds it took in all."""

    count: int = 0
    ns: int = 0


@dataclass(frozen=True, slots=True)
class InferenceStats:
    """Counted per request. The compute parts give each request the whole duration of the execution it shared."""

    success: DurationStat
    fail: DurationStat
    queue: DurationStat
    compute_input: DurationStat
    compute_infer: DurationStat
    compute_output: DurationStat
    cache_hit: DurationStat = DurationStat()
    cache_miss: DurationStat = DurationStat()


@dataclass(frozen=True, slots=True)
class BatchStat:
    """Counted per execution of exactly `batch_size` rows."""

    batch_size: int
    compute_input: DurationStat
    compute_infer: DurationStat
    compute_output: DurationStat


@dataclass(frozen=True, slots=True)
class ModelStat:
    """`last_inference` is in milliseconds since the epoch, 0 before the first; `inference_count` is in rows."""

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: InferenceStats
    batch_stats: tuple[BatchStat, ...]
    response_stats: Mapping[str, Any] = field(default_factory=dict)
    memory_usage: tuple[Any, ...] = ()
