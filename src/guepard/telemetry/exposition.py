"""A metrics snapshot as Prometheus families. Not imported before the server is ready: prometheus_client is slow.

Every family is named in docs/reference/metrics.md, and a test compares the two.
"""

import platform
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from guepard.core.phases import PHASES
from guepard.core.reasons import FailureReason, ReleaseReason
from guepard.telemetry.histogram import NANOSECONDS, HistogramSnapshot, batch_size_histogram
from guepard.telemetry.metrics import MetricsSnapshot, ModelSample, PoolSample

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_MODEL = ("model", "version")
_POOL = ("pool", *_MODEL, "instance")

_PHASE_HELP = {
    "decode": "Time from the arrival of a request to its place in the queue",
    "queue": "Time in the queue",
    "input": "Time to gather the inputs of the execution that a request shared",
    "compute": "Time the model took for the execution that a request shared",
    "output": "Time to scatter the outputs of the execution that a request shared",
    "encode": "Time from the end of an execution until its answers were handed to their senders",
}


def encode(snapshot: MetricsSnapshot, accept: str) -> tuple[bytes, str]:
    """Write `snapshot` in the format that `accept` asks for; returns the body and its media type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_SnapshotCollector(snapshot))
    ProcessCollector(registry=registry)
    if _wants_openmetrics(accept):
        return generate_openmetrics(registry), OPENMETRICS  # type: ignore[no-untyped-call]
    return generate_latest(registry), PROMETHEUS_TEXT


def _wants_openmetrics(accept: str) -> bool:
    # prometheus_client's own choice raises on a version that is no number and echoes one that it does not write.
    for item in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in item.split(";"))
        version = next((part for part in parameters if part.startswith("version=")), "version=1.0.0")
        if media_type == "application/openmetrics-text" and version == "version=1.0.0" and "q=0" not in parameters:
            return True
    return False


class _SnapshotCollector(Collector):
    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        yield from _model_counters(self._snapshot.models)
        yield from _model_histograms(self._snapshot.models)
        yield from _model_gauges(self._snapshot.models)
        yield from _server_families(self._snapshot)
        yield from _pool_families(self._snapshot.pools)


def _model_counters(models: Sequence[ModelSample]) -> Iterator[Metric]:
    yield _counter(
        "guepard_inference_requests",
        "Inference requests that succeeded",
        _MODEL,
        (((m.name, m.version), m.reading.request.count) for m in models),
    )
    yield _counter(
        "guepard_inference_failures",
        "Inference requests that failed, by reason",
        (*_MODEL, "reason"),
        (((m.name, m.version, reason), m.reading.failures[reason]) for m in models for reason in FailureReason),
    )
    yield _counter(
        "guepard_inference_rows",
        "Rows that successful executions ran",
        _MODEL,
        (((m.name, m.version), m.reading.rows) for m in models),
    )
    yield _counter(
        "guepard_inference_executions",
        "Executions of the model that succeeded; one may answer many requests",
        _MODEL,
        (((m.name, m.version), m.reading.executions) for m in models),
    )
    yield _counter(
        "guepard_wide_executions",
        "Executions that were begun on all CPUs, as the model was idle",
        _MODEL,
        (((m.name, m.version), m.reading.wide) for m in models),
    )
    yield _counter(
        "guepard_inference_terminations",
        "Executions that were ended early because nobody waited for them any more",
        _MODEL,
        (((m.name, m.version), m.reading.terminations) for m in models),
    )
    yield _counter(
        "guepard_batch_release",
        "Successful executions by what made the batcher release them",
        (*_MODEL, "reason"),
        (((m.name, m.version, reason), m.reading.releases[reason]) for m in models for reason in ReleaseReason),
    )

    yield _counter(
        "guepard_instance_restarts",
        "Processes of instances that were lost and replaced, by why",
        (*_MODEL, "reason"),
        (((m.name, m.version, reason), count) for m in models for reason, count in m.losses.items()),
    )
    yield _counter(
        "guepard_batch_tokens",
        "Rows times length of successful executions, by what filled the places; of models with padding alone",
        (*_MODEL, "kind"),
        (
            ((m.name, m.version, kind), count)
            for m in models
            if m.reading.tokens is not None
            for kind, count in m.reading.tokens._asdict().items()
        ),
    )


def _model_histograms(models: Sequence[ModelSample]) -> Iterator[Metric]:
    yield _histogram(
        "guepard_inference_request_duration_seconds",
        "Time from the arrival of a request to its answer, for requests that succeeded",
        _MODEL,
        (((m.name, m.version), m.reading.request, NANOSECONDS) for m in models),
    )
    for phase in PHASES:
        yield _histogram(
            f"guepard_inference_{phase}_duration_seconds",
            _PHASE_HELP[phase],
            _MODEL,
            (((m.name, m.version), m.reading.phases[phase], NANOSECONDS) for m in models),
        )
    yield _histogram(
        "guepard_step_duration_seconds",
        "Time of one step around a model: of preprocess for each request, of postprocess for each execution",
        (*_MODEL, "step"),
        (
            ((m.name, m.version, step), histogram, NANOSECONDS)
            for m in models
            for step, histogram in m.reading.steps.items()
        ),
    )
    yield _histogram(
        "guepard_batch_size",
        "Rows of one execution",
        _MODEL,
        (
            (
                (m.name, m.version),
                batch_size_histogram({size: n.executions for size, n in m.reading.batches.items()}),
                1,
            )
            for m in models
        ),
    )


def _model_gauges(models: Sequence[ModelSample]) -> Iterator[Metric]:
    yield _gauge(
        "guepard_queue_depth",
        "Requests that wait in the queue now",
        _MODEL,
        (((m.name, m.version), m.queue_depth) for m in models),
    )
    yield _gauge(
        "guepard_executing_requests",
        "Requests that are being executed now",
        _MODEL,
        (((m.name, m.version), m.executing) for m in models),
    )
    yield _gauge(
        "guepard_model_ready",
        "1 if the model version is ready, else 0",
        _MODEL,
        (((m.name, m.version), m.ready) for m in models),
    )
    yield _gauge(
        "guepard_model_load_duration_seconds",
        "How long the last load took, warm-up included; 0 until it has ended",
        _MODEL,
        (((m.name, m.version), m.load_duration_ns / NANOSECONDS) for m in models),
    )
    engines = InfoMetricFamily(
        "guepard_model_engine", "The engine that executes the model, and in which precision", labels=_MODEL
    )
    for m in models:
        if m.engine:
            engines.add_metric((m.name, m.version), {"engine": m.engine, "precision": m.precision})
    yield engines
    yield _gauge(
        "guepard_model_engine_ratio",
        "How many times as fast as the reference engine it was when engines were measured",
        _MODEL,
        (((m.name, m.version), m.engine_ratio) for m in models if m.engine_ratio),
    )
    yield _gauge(
        "guepard_model_provider_fallback",
        "1 if the model runs without an execution provider that was asked for, else 0",
        _MODEL,
        (((m.name, m.version), m.fallback) for m in models),
    )
    yield _gauge(
        "guepard_instance_memory_bytes",
        "Memory that the process of an instance has of its own, mapped files left out",
        (*_MODEL, "instance"),
        (((m.name, m.version, str(number)), size) for m in models for number, size in enumerate(m.process_memory)),
    )


def _server_families(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    yield _histogram(
        "api_request_duration_seconds",
        "Time from the arrival of a request to the end of its answer, by route or gRPC method and status",
        ("route", "code"),
        (((sample.route, str(sample.code)), sample.duration, NANOSECONDS) for sample in snapshot.calls),
    )
    yield _gauge("guepard_grpc_calls", "gRPC calls that are being answered now", (), [((), snapshot.grpc_calls)])
    yield _gauge("guepard_http_connections", "Open HTTP connections", (), [((), snapshot.http_connections)])
    yield _gauge(
        "guepard_inflight_bytes",
        "Bytes of request bodies that are held now",
        (),
        [((), snapshot.inflight_bytes)],
    )
    yield _counter(
        "guepard_log_records_dropped",
        "Log records dropped because the log was read too slowly or could not be written",
        (),
        [((), snapshot.log_records_dropped)],
    )
    yield _counter(
        "guepard_memory_trimmed_bytes",
        "Resident memory that was given back once models were idle",
        (),
        [((), snapshot.memory_trimmed_bytes)],
    )
    build = InfoMetricFamily("guepard_build", "The running version")
    build.add_metric([], {"version": snapshot.build, "python": platform.python_version()})
    yield build


def _pool_families(pools: Sequence[PoolSample]) -> Iterator[Metric]:
    yield _gauge(
        "guepard_memory_pool_bytes",
        "Bytes that a memory pool holds now, by whether they are leased",
        (*_POOL, "state"),
        (
            ((*labels, state), size)
            for *labels, statistics in pools
            for state, size in (("leased", statistics.leased_bytes), ("free", statistics.free_bytes))
        ),
    )
    yield _counter(
        "guepard_memory_pool_slabs",
        "Slabs that a memory pool has made and given back",
        (*_POOL, "change"),
        (
            ((*labels, change), count)
            for *labels, statistics in pools
            for change, count in (("grown", statistics.grown_count), ("shrunk", statistics.shrunk_count))
        ),
    )
    yield _counter(
        "guepard_memory_pool_unpooled",
        "Leases for which a memory pool had no room",
        _POOL,
        ((labels, statistics.unpooled_count) for *labels, statistics in pools),
    )


def _counter(name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _gauge(name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _histogram(
    name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], HistogramSnapshot, int]]
) -> Metric:
    """The last item of a sample is how many of its total's units make one of the family's."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, histogram, scale in samples:
        bounds: list[Any] = [*map(floatToGoString, histogram.bounds), "+Inf"]
        buckets = list(zip(bounds, histogram.cumulative, strict=True))
        family.add_metric(values, buckets, histogram.total / scale)
    return family
