"""The registry behind `/metrics`: whose numbers are exposed, and the counts that belong to no model.

Recording and reading happen on the event loop's thread. Numbers that others hold already, such as the depth of a queue,
are read through callables when somebody scrapes and cost nothing before.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from guepard.core.buffers import PoolStatistics
from guepard.core.reasons import LossReason
from guepard.telemetry.histogram import HistogramSnapshot, LatencyHistogram
from guepard.telemetry.statistics import ModelReading, ModelStatistics

UNMATCHED = "unmatched"


@dataclass(frozen=True, slots=True)
class ModelGauges:
    """Where the present state of one model version is read. `load_duration_ns` gives 0 until a load has ended.

    `losses`: how many processes of its instances were lost, by why; `process_memory`: bytes of each that runs, as far
    as they are its own. `engine` executes the model in `precision`; "": the model is its own engine. `engine_ratio` is
    how many times as fast as the reference engine it was, as measured at load; 0.0: not measured. `fallback`: it
    runs without an execution provider that was asked for.
    """

    queue_depth: Callable[[], int]
    executing: Callable[[], int]
    ready: Callable[[], bool]
    load_duration_ns: Callable[[], int]
    losses: Callable[[], Mapping[LossReason, int]]
    process_memory: Callable[[], Sequence[int]]
    engine: str = ""
    precision: str = ""
    engine_ratio: float = 0.0
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class ServerGauges:
    """Where the present state of the server is read. `log_records_dropped` and
    `memory_trimmed_bytes` only ever grow.
    """

    grpc_calls: Callable[[], int]
    http_connections: Callable[[], int]
    inflight_bytes: Callable[[], int]
    log_records_dropped: Callable[[], int]
    memory_trimmed_bytes: Callable[[], int]
    pools: "Callable[[], Sequence[PoolSample]]" = tuple  # none


class ModelSample(NamedTuple):
    name: str
    version: str
    reading: ModelReading
    queue_depth: int
    executing: int
    ready: bool
    load_duration_ns: int
    losses: Mapping[LossReason, int]
    process_memory: Sequence[int]
    engine: str
    precision: str
    engine_ratio: float
    fallback: bool


class CallSample(NamedTuple):
    """`code` is an HTTP status or the name of a gRPC one."""

    route: str
    code: int | str
    duration: HistogramSnapshot


class PoolSample(NamedTuple):
    """`pool` is "server", or "inputs" for the memory that an instance of a model shares with its process."""

    pool: str
    model: str
    version: str
    instance: str
    statistics: PoolStatistics


class MetricsSnapshot(NamedTuple):
    """Everything that one scrape shows, apart from what the operating system says about the process."""

    build: str
    models: tuple[ModelSample, ...]
    calls: tuple[CallSample, ...]
    grpc_calls: int
    http_connections: int
    inflight_bytes: int
    log_records_dropped: int
    memory_trimmed_bytes: int
    pools: tuple[PoolSample, ...]


class RouteCalls(dict[int | str, LatencyHistogram]):
    """The durations of answered HTTP requests, or gRPC calls, by status or code. Cost: a look-up and an append."""

    def __missing__(self, code: int | str) -> LatencyHistogram:
        histogram = self[code] = LatencyHistogram()
        return histogram


class MetricsRegistry:
    """Holds what is exposed. `routes` are the router's templates and gRPC's methods; all else counts as "unmatched"."""

    def __init__(self, build: str, routes: Iterable[str], server: ServerGauges) -> None:
        self._build = build
        self._routes = set(routes)
        self._server = server
        self._models: dict[tuple[str, str], tuple[ModelStatistics, ModelGauges]] = {}
        self._calls: dict[str, RouteCalls] = {}

    def expose_routes(self, routes: Iterable[str]) -> None:
        """Count calls of these, too, under their own names."""
        self._routes.update(routes)

    def add_model(self, name: str, version: str, statistics: ModelStatistics, gauges: ModelGauges) -> None:
        """Expose a model version; one that was there under the same name and version is replaced."""
        self._models[name, version] = (statistics, gauges)

    def remove_model(self, name: str, version: str) -> None:
        """Take all series of a model version out of the exposition. Does nothing for an unknown one."""
        self._models.pop((name, version), None)

    def calls(self, route: str) -> "RouteCalls":
        """Where the calls of `route` are counted."""
        name = route if route in self._routes else UNMATCHED
        calls = self._calls.get(name)
        if calls is None:
            calls = self._calls[name] = RouteCalls()
        return calls

    def snapshot(self) -> MetricsSnapshot:
        return MetricsSnapshot(
            build=self._build,
            models=tuple(
                ModelSample(
                    name,
                    version,
                    statistics.read(),
                    gauges.queue_depth(),
                    gauges.executing(),
                    gauges.ready(),
                    gauges.load_duration_ns(),
                    gauges.losses(),
                    gauges.process_memory(),
                    gauges.engine,
                    gauges.precision,
                    gauges.engine_ratio,
                    gauges.fallback,
                )
                for (name, version), (statistics, gauges) in self._models.items()
            ),
            calls=tuple(
                CallSample(route, code, histogram.snapshot())
                for route, calls in self._calls.items()
                for code, histogram in calls.items()
            ),
            grpc_calls=self._server.grpc_calls(),
            http_connections=self._server.http_connections(),
            inflight_bytes=self._server.inflight_bytes(),
            log_records_dropped=self._server.log_records_dropped(),
            memory_trimmed_bytes=self._server.memory_trimmed_bytes(),
            pools=tuple(self._server.pools()),
        )

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The body of one scrape and its media type: Prometheus text, or OpenMetrics where `accept` asks for it.

        Cost: about 2 ms per model version. The first call also imports the encoder, unless `prepare` has run.
        """
        from guepard.telemetry.exposition import encode

        return encode(self.snapshot(), accept)


def prepare() -> None:
    """Import what `render` needs, which takes some 50 ms. May run on any thread."""
    import guepard.telemetry.exposition  # noqa: F401
