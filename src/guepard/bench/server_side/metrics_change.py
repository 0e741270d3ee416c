"""What moved on a page of metrics between two reads."""

from typing import NamedTuple

from guepard.bench.server_side.metrics_page import MetricsPage
from guepard.bench.server_side.model_counters import ModelCounters, from_metrics
from guepard.bench.server_side.not_told import NotTold

CPU = "process_cpu_seconds_total"
_STARTED = "process_start_time_seconds"
_MOMENTARY = ("process_resident_memory_bytes", "nv_gpu_memory_used_bytes")
# Triton's counters have no ending of their own; these of its families are none.
_NO_COUNTERS = ("nv_inference_pending_request_count",)


class MetricsChange(NamedTuple):
    """values: what counters of inference and CPU time grew by, where they grew, and memory at the end."""

    values: dict[str, float]
    cpu_s: float | None
    counters: ModelCounters | None


def metrics_change(before: MetricsPage, after: MetricsPage, model: str | None, version: str | None) -> MetricsChange:
    """Raises: NotTold where the server began anew in between."""
    cpu_s = _moved(CPU, before, after)
    if (cpu_s or 0.0) < 0 or _moved(_STARTED, before, after):
        raise NotTold("the process was restarted during the run")
    earlier, later = (from_metrics(page, model, version) for page in (before, after))
    if earlier is not None and later is None:
        raise NotTold("the model's metrics went away: it was unloaded during the run")
    counters = later.since(earlier) if earlier is not None and later is not None else None
    values = {}
    for name in after.names:
        if _is_counter(name):
            grown = (after.total(name, model, version) or 0.0) - (before.total(name, model, version) or 0.0)
            if grown > 0:
                values[name] = grown
        elif name in _MOMENTARY:
            values[name] = after.total(name) or 0.0
    if cpu_s is not None:
        values[CPU] = cpu_s
    return MetricsChange(values, cpu_s, counters)


def _is_counter(name: str) -> bool:
    if name.startswith(("guepard_inference_", "guepard_batch_")):
        return name.endswith("_total")
    return name.startswith(("nv_inference_", "nv_cache_")) and "_summary_" not in name and name not in _NO_COUNTERS


def _moved(name: str, before: MetricsPage, after: MetricsPage) -> float | None:
    start, end = before.total(name), after.total(name)
    return None if start is None or end is None else end - start
