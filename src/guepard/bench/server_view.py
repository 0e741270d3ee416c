"""The same seconds as the server tells them, beside what its clients measured."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple, TypeVar

from guepard.bench.server_side.metrics_change import MetricsChange, metrics_change
from guepard.bench.server_side.metrics_page import MetricsPage
from guepard.bench.server_side.metrics_source import MetricsSource, named_place, usual_places
from guepard.bench.server_side.model_counters import ModelCounters
from guepard.bench.server_side.not_told import NotTold
from guepard.bench.server_side.page import Page
from guepard.bench.server_side.server_timing import mean_timings
from guepard.bench.server_side.statistics_source import GrpcStatistics, HttpStatistics, statistics_path
from guepard.bench.targets.header_lines import Headers
from guepard.bench.targets.target_url import TargetUrl
from guepard.core.phases import PHASES
from guepard.measure.load.plan import Endpoint
from guepard.measure.results import ServerPhase, ServerView

READ_S = 2.0
"""How long the answer of one source may take."""

Means = Mapping[str, float]
Source = Literal["server-timing", "statistics", "metrics"]
Told = TypeVar("Told")

_TOTAL = "total"
"""The metric of Server-Timing that commonly stands for all others together."""
_TOLERANCE = 0.02
_SLACK = 5
_DOUBTFUL = 20
"""So many requests make a comparison of counts worth something."""


class _Snapshot(NamedTuple):
    statistics: ModelCounters | NotTold
    metrics: MetricsPage | NotTold


class ServerProbe:
    """Asks the server before and after a run, and compares.

    model, version, prefix, headers: of the target; `prefix` stands before `/v2`. metrics_url: where the metrics are, if
    not where servers usually have them.
    Raises: ConfigurationError for a `metrics_url` that is no URL, and nothing else ever: what cannot be read is in
    `ServerView.unavailable`, in words.
    Cost: one read of each source, all at the same time, `READ_S` each at most.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        model: str | None = None,
        version: str | None = None,
        prefix: str = "",
        headers: Headers = (),
        metrics_url: str | None = None,
    ) -> None:
        self._model = model
        self._version = version
        self._statistics: HttpStatistics | GrpcStatistics | None = None
        if model is not None and endpoint.protocol == "grpc":
            self._statistics = GrpcStatistics(endpoint, headers, model, version, READ_S)
        elif model is not None:
            scheme = "https" if endpoint.tls else "http"
            url = TargetUrl(scheme, endpoint.host, endpoint.port, statistics_path(prefix, model, version))
            self._statistics = HttpStatistics(Page(url, endpoint, headers, READ_S))
        if metrics_url is not None:
            places = [named_place(metrics_url, endpoint, headers, READ_S)]
        else:
            places = usual_places(endpoint, model, prefix, headers, READ_S)
        self._metrics = MetricsSource(places, model, version)
        self._before = self._after = _Snapshot(NotTold("the server was not asked"), NotTold("the server was not asked"))

    def before(self) -> None:
        self._before = self._after = self._read()

    def after(self) -> None:
        self._after = self._read()

    def view(self, timings: Sequence[bytes | str], mean_latency_ms: float | None, requests: int) -> ServerView:
        """The server's part in what was measured between `before` and `after`.

        timings: values of the header Server-Timing, of any of the answers. requests: how many right answers the client
        counted in that time; mean_latency_ms is of them, None if there were none.
        """
        unavailable: dict[str, str] = {}
        timing = mean_timings(timings)
        if not timing.phases:
            unavailable["server-timing"] = "no answer had durations in the header Server-Timing"
        if timing.malformed:
            share = f"{timing.malformed:,} of {timing.answers + timing.malformed:,}"
            unavailable["server-timing"] = f"the header Server-Timing of {share} answers breaks its grammar"
        counted = _or_why(self._counted, unavailable, "statistics")
        metered = _or_why(lambda: self._metered(counted, requests), unavailable, "metrics")
        by_metrics = metered.counters if metered is not None else None
        counts = counted or by_metrics
        is_alone = counts is not None and _is_about(counts.requests, requests)
        if counts is not None and not is_alone:
            unavailable["own share"] = _whose(counts.requests, requests)
        phases = _phases(
            {
                "server-timing": timing.phases,
                "statistics": counted.means_ms if counted is not None else {},
                "metrics": by_metrics.means_ms if by_metrics is not None else {},
            },
            may_mix=is_alone,
        )
        return ServerView(
            phases=phases,
            unexplained_ms=_unexplained(phases, mean_latency_ms, unavailable),
            statistics=_statistics(counted) if counted is not None else {},
            metrics=metered.values if metered is not None else {},
            cpu_us_per_request=_cpu_us(metered, requests),
            batch_size=counts.batch_size if counts is not None else None,
            cache_hit_share=counts.cache_hit_share if counts is not None else None,
            unavailable=unavailable,
        )

    def _read(self) -> _Snapshot:
        with ThreadPoolExecutor(2, "server-view") as threads:
            statistics = threads.submit(_told, self._read_statistics)
            metrics = threads.submit(_told, self._metrics.read)
            return _Snapshot(statistics.result(), metrics.result())

    def _read_statistics(self) -> ModelCounters:
        if self._statistics is None:
            raise NotTold("statistics are of a model, and the target names none")
        return self._statistics.read()

    def _counted(self) -> ModelCounters:
        return _value(self._after.statistics).since(_value(self._before.statistics))

    def _metered(self, counted: ModelCounters | None, requests: int) -> MetricsChange:
        before, after = _value(self._before.metrics), _value(self._after.metrics)
        change = metrics_change(before, after, self._model, self._version)
        if change.counters is not None and not self._metrics.is_sure:
            expected = counted.requests if counted is not None else requests
            found = change.counters.requests
            if expected >= _DOUBTFUL and not expected / 2 <= found <= expected * 2:
                raise NotTold(
                    f"{self._metrics.where} counts {found:,} requests where {expected:,} were answered: the metrics of "
                    "another server; name the right page with --metrics-url"
                )
        return change


def _told(read: Callable[[], Told]) -> Told | NotTold:
    try:
        return read()
    except NotTold as reason:
        return reason


def _value(told: Told | NotTold) -> Told:
    if isinstance(told, NotTold):
        raise told
    return told


def _or_why(find: Callable[[], Told], unavailable: dict[str, str], key: str) -> Told | None:
    try:
        return find()
    except NotTold as reason:
        unavailable[key] = str(reason)
        return None


def _is_about(found: int, expected: int) -> bool:
    return abs(found - expected) <= _TOLERANCE * expected + _SLACK


def _whose(found: int, expected: int) -> str:
    if found > expected:
        return (
            f"the server counted {found:,} requests where this client had {expected:,} answers: others use it too, and "
            "its statistics, metrics and CPU time are of all of them"
        )
    return (
        f"the server counted {found:,} requests where this client had {expected:,} answers: several servers or "
        "processes share the address, or a cache before them answers, and its figures are of that part alone"
    )


def _phases(sources: Mapping[Source, Means], *, may_mix: bool) -> tuple[ServerPhase, ...]:
    """Those of the first source that has any. Of the others those that are left out in it, if all are about the same
    requests and the names are ours."""
    chosen: dict[str, ServerPhase] = {}
    for source, means in sources.items():
        if chosen and not (may_mix and chosen.keys() <= set(PHASES)):
            break
        for name, ms in means.items():
            chosen.setdefault(name, ServerPhase(name=name, mean_ms=ms, source=source))
    places = {name: place for place, name in enumerate(PHASES)}
    return tuple(sorted(chosen.values(), key=lambda phase: places.get(phase.name, len(places))))


def _unexplained(
    phases: tuple[ServerPhase, ...], mean_latency_ms: float | None, unavailable: dict[str, str]
) -> float | None:
    if mean_latency_ms is None or not phases:
        return None
    totals = [phase.mean_ms for phase in phases if phase.name == _TOTAL]
    rest = mean_latency_ms - (totals[0] if totals else sum(phase.mean_ms for phase in phases))
    if rest < 0:
        unavailable["unexplained"] = (
            f"the server's phases are {-rest:.3f} ms more than the mean latency: they overlap, or are of other requests"
        )
        return None
    return rest


def _statistics(counted: ModelCounters) -> dict[str, float]:
    """Counts under Triton's names; the mean of a request on the server in milliseconds."""
    found: dict[str, float] = {
        "success_count": counted.requests,
        "fail_count": counted.failures,
        "inference_count": counted.inferences,
        "execution_count": counted.executions,
        "cache_hit_count": counted.cache_hits,
        "cache_miss_count": counted.cache_misses,
    }
    if counted.request_ms is not None:
        found["success_ms"] = counted.request_ms
    return found


def _cpu_us(metered: MetricsChange | None, requests: int) -> float | None:
    """The process's own count divides it where there is one: it may have answered others as well."""
    if metered is None or metered.cpu_s is None:
        return None
    answered = metered.counters.requests if metered.counters is not None else requests
    return 1e6 * metered.cpu_s / answered if answered else None
