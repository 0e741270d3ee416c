"""What a server has counted of one model: its statistics and its metrics in one form.

Sources: Triton server, docs/protocol/extension_statistics.md and docs/user_guide/metrics.md; docs/reference/metrics.md.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from guepard.bench.server_side.metrics_page import MetricsPage
from guepard.bench.server_side.not_told import NotTold
from guepard.core.phases import PHASES

# Our phases by Triton's names for them, which are those of its statistics and, within longer ones, of its metrics.
_TRITON_PHASES = {"queue": "queue", "input": "compute_input", "compute": "compute_infer", "output": "compute_output"}

_MILLISECOND = 1_000_000


class ModelCounters(NamedTuple):
    """Counts since some moment. Durations are sums in nanoseconds, over the requests that succeeded."""

    requests: int
    failures: int
    request_ns: int
    phases_ns: Mapping[str, int]
    inferences: int
    """Rows."""
    executions: int
    cache_hits: int
    cache_misses: int

    def since(self, before: "ModelCounters") -> "ModelCounters":
        """What was counted after `before`. Raises: NotTold where something was counted backwards."""
        phases = {name: ns - before.phases_ns.get(name, 0) for name, ns in self.phases_ns.items()}
        moved = ModelCounters(
            self.requests - before.requests,
            self.failures - before.failures,
            self.request_ns - before.request_ns,
            phases,
            self.inferences - before.inferences,
            self.executions - before.executions,
            self.cache_hits - before.cache_hits,
            self.cache_misses - before.cache_misses,
        )
        if min(*(value for value in moved if isinstance(value, int)), *phases.values()) < 0:
            raise NotTold("counters went backwards: the server or the model was restarted during the run")
        return moved

    @property
    def means_ms(self) -> dict[str, float]:
        """Mean of each phase over the requests that succeeded; empty without any."""
        if not self.requests:
            return {}
        return {name: ns / self.requests / _MILLISECOND for name, ns in self.phases_ns.items()}

    @property
    def request_ms(self) -> float | None:
        return self.request_ns / self.requests / _MILLISECOND if self.requests else None

    @property
    def batch_size(self) -> float | None:
        return self.inferences / self.executions if self.executions else None

    @property
    def cache_hit_share(self) -> float | None:
        lookups = self.cache_hits + self.cache_misses
        return self.cache_hits / lookups if lookups else None


def from_statistics(document: Any) -> ModelCounters:
    """The sum over all versions in a document of Triton's statistics extension. Raises: NotTold."""
    try:
        stats = document["model_stats"]
        parts = [_of_version(stat) for stat in stats]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise NotTold("the answer is not in the form of Triton's statistics extension") from None
    if not parts:
        raise NotTold("the statistics hold no version of the model")
    phases = {name: sum(part.phases_ns[name] for part in parts) for name in _TRITON_PHASES}
    numbers = zip(*((part[:3] + part[4:]) for part in parts), strict=True)
    requests, failures, request_ns, *rest = map(sum, numbers)
    return ModelCounters(requests, failures, request_ns, phases, *rest)


def _of_version(stat: Any) -> ModelCounters:
    # Counts may be text, as protobuf's JSON form has integers of 64 bits, and absent where they are 0.
    stats = stat["inference_stats"]

    def part(name: str, field: str) -> int:
        return int(stats.get(name, {}).get(field, 0))

    return ModelCounters(
        part("success", "count"),
        part("fail", "count"),
        part("success", "ns"),
        {name: part(theirs, "ns") for name, theirs in _TRITON_PHASES.items()},
        int(stat.get("inference_count", 0)),
        int(stat.get("execution_count", 0)),
        part("cache_hit", "count"),
        part("cache_miss", "count"),
    )


def from_metrics(page: MetricsPage, model: str | None, version: str | None) -> ModelCounters | None:
    """From the families of Guepard or Triton; None where the page has neither for this model."""

    def total(name: str) -> int | None:
        value = page.total(name, model, version)
        return None if value is None else round(value)

    def duration(name: str, scale: int) -> int:
        return round((page.total(name, model, version) or 0.0) * scale)

    if (requests := total("guepard_inference_requests_total")) is not None:
        return ModelCounters(
            requests,
            total("guepard_inference_failures_total") or 0,
            duration("guepard_inference_request_duration_seconds_sum", 1_000_000_000),
            {name: duration(f"guepard_inference_{name}_duration_seconds_sum", 1_000_000_000) for name in PHASES},
            total("guepard_inference_rows_total") or 0,
            total("guepard_inference_executions_total") or 0,
            0,
            0,
        )
    if (requests := total("nv_inference_request_success")) is not None:
        return ModelCounters(
            requests,
            total("nv_inference_request_failure") or 0,
            duration("nv_inference_request_duration_us", 1_000),
            {ours: duration(f"nv_inference_{name}_duration_us", 1_000) for ours, name in _TRITON_PHASES.items()},
            total("nv_inference_count") or 0,
            total("nv_inference_exec_count") or 0,
            total("nv_cache_num_hits_per_model") or 0,
            total("nv_cache_num_misses_per_model") or 0,
        )
    return None
