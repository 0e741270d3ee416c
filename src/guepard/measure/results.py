"""The result file: what was measured, with what, how far it can be trusted, and the raw histograms.

One JSON document, whatever was asked: a single run, a search for the edge, a comparison. Histograms are in
HdrHistogram's V2 compressed form (base64), in nanoseconds, so that other tools read them and results can be merged.
Times ending in `_s` are seconds, `_ms` milliseconds. docs/reference/bench-results.md describes it for readers.
"""

from typing import Any, Literal

from msgspec import Struct

FORMAT = "guepard-bench"
VERSION = 1


class Estimate(Struct, frozen=True, kw_only=True):
    """A figure and its 95 % confidence interval; None where the sample cannot tell that side."""

    value: float
    low: float | None
    high: float | None


class Percentile(Struct, frozen=True, kw_only=True):
    """`percent` is 99.9 for p99.9. `is_supported` is False where there are too few samples: show it grey."""

    percent: float
    value_ms: float
    low_ms: float | None
    high_ms: float | None
    is_supported: bool
    needed: int
    """How many samples this percentile needs to be told at all."""


class Latency(Struct, frozen=True, kw_only=True):
    """A distribution. `count` samples, worth `effective_count` independent ones."""

    count: int
    effective_count: int
    mean_ms: float
    min_ms: float
    max_ms: float
    percentiles: tuple[Percentile, ...]
    histogram: str

    def at(self, percent: float) -> Percentile | None:
        """The percentile, if it was worked out."""
        return next((each for each in self.percentiles if each.percent == percent), None)


class Finding(Struct, frozen=True, kw_only=True):
    """Something that limits what the figures mean. `invalid` findings make the run INVALID."""

    code: str
    """Stable, in kebab-case: send-lag, generator-saturated, unstable, errors, …"""
    severity: Literal["invalid", "warning", "note"]
    reason: str
    remedy: str


class ErrorCount(Struct, frozen=True, kw_only=True):
    outcome: int
    name: str
    count: int
    latency: Latency


class Slice(Struct, frozen=True, kw_only=True):
    """A piece of the time line. Latencies are of successes due in it, counts of ends in it."""

    start_s: float
    end_s: float
    offered: int
    succeeded: int
    failed: dict[str, int]
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    in_flight: int
    """At the end of the slice."""


class Window(Struct, frozen=True, kw_only=True):
    """The part that is measured. `warm_up` says how its beginning was chosen."""

    start_s: float
    end_s: float
    warm_up: str


class Steadiness(Struct, frozen=True, kw_only=True):
    """Spread over sub-windows as a share of the median, against what chance alone would bring."""

    is_steady: bool
    throughput_spread: float
    latency_spread: float
    drift: float
    """Relative change of the SLO percentile from the first to the last third."""
    says: str


class GeneratorReport(Struct, frozen=True, kw_only=True):
    """How the load generator itself fared."""

    processes: int
    cpu_s: float
    cpu_share: float
    """Of one core, the busiest process."""
    cpu_us_per_request: float
    runqueue_wait_share: float | None
    """Share of time that a process was ready and had no CPU; None where the kernel does not tell."""
    send_lag: Latency
    """Of requests that found every connection busy, until they were found to."""
    loop_lag: Latency
    """Lengths of turns of the generator's loop."""
    connections_opened: int
    connect: Latency | None
    tls: Latency | None
    blocked_share: float
    priority: int
    self_test_rate: float | None
    """Requests per second that the same generator reached against a null server; None if it was not asked."""


class ServerPhase(Struct, frozen=True, kw_only=True):
    """A part of the server's time per request, and where it was read."""

    name: str
    mean_ms: float
    source: Literal["server-timing", "statistics", "metrics"]


class ServerView(Struct, frozen=True, kw_only=True):
    """The same seconds as the server tells them."""

    phases: tuple[ServerPhase, ...]
    unexplained_ms: float | None
    """Mean latency less the phases: network, kernel, client, queueing that nobody counts."""
    statistics: dict[str, float]
    metrics: dict[str, float]
    cpu_us_per_request: float | None
    batch_size: float | None
    cache_hit_share: float | None
    unavailable: dict[str, str]
    """What could not be read, and why."""


class Load(Struct, frozen=True, kw_only=True):
    """What was asked of the target."""

    loop: Literal["open", "closed"]
    arrivals: str
    rate: float | None
    concurrency: int | None
    duration_s: float
    requests: int
    timeout_s: float
    max_connections: int
    processes: int
    seed: int


class Run(Struct, frozen=True, kw_only=True):
    """One run of load."""

    name: str
    target: int = 0
    """Index in the document's targets."""
    started_s: float
    """Since the first run of the document began."""
    load: Load
    is_valid: bool
    findings: tuple[Finding, ...]
    window: Window
    steadiness: Steadiness
    offered: int
    """Requests whose intended time lies in the window."""
    succeeded: int
    failed: int
    shed: int
    offered_rate: float
    sent_rate: float
    throughput: Estimate
    """Successes per second."""
    goodput: float | None
    """Successes per second within the SLO, where one was given."""
    mean_in_flight: float
    repeat_share: float
    """Requests whose payload had been sent before: what a cache could answer."""
    received_bytes_per_s: float
    latency: Latency
    """Of successes, from the intended send time."""
    service: Latency
    """Of successes, from the real send time."""
    first: Latency | None
    """Streams: from the intended send time to the first piece."""
    between: Latency | None
    """Streams: between two pieces."""
    pieces_per_s: float | None
    errors: tuple[ErrorCount, ...]
    slices: tuple[Slice, ...]
    generator: GeneratorReport
    server: ServerView | None


class Slo(Struct, frozen=True, kw_only=True):
    percent: float
    limit_ms: float


class Edge(Struct, frozen=True, kw_only=True):
    """The answer of `--find-max`: the highest rate that kept the SLO, and the bracket around the edge."""

    slo: Slo
    rate: Estimate | None
    """None: not even the lowest rate kept it."""
    lowest_failing: float | None
    confirmed: bool
    says: str


class Comparison(Struct, frozen=True, kw_only=True):
    """A is the target, B is what it is compared with. Differences are of B against A, as a share of A."""

    metric: str
    verdict: Literal["faster", "slower", "cannot tell"]
    """Of B."""
    difference: Estimate
    minimum_detectable: float
    blocks: int
    says: str


class Gate(Struct, frozen=True, kw_only=True):
    """One comparison with a baseline."""

    name: str
    baseline: float
    measured: float
    limit: float
    passed: bool
    says: str


class PayloadReport(Struct, frozen=True, kw_only=True):
    source: str
    count: int
    mean_bytes: float
    sha256: str
    order: str


class Target(Struct, frozen=True, kw_only=True):
    url: str
    protocol: str
    model: str | None
    model_version: str | None
    server: str | None
    """What it says it is: name and version."""
    same_machine: bool


class Machine(Struct, frozen=True, kw_only=True):
    cpu: str
    cores: int
    cpu_budget: float
    memory_bytes: int
    system: str


class Document(Struct, frozen=True, kw_only=True):
    format: str = FORMAT
    version: int = VERSION
    created: str
    command: tuple[str, ...]
    guepard: str
    versions: dict[str, str]
    commit: str | None
    """Of the working directory."""
    machine: Machine
    targets: tuple[Target, ...]
    payloads: PayloadReport
    slo: Slo | None
    runs: tuple[Run, ...]
    edge: Edge | None = None
    comparisons: tuple[Comparison, ...] = ()
    gates: tuple[Gate, ...] = ()
    scenario: str | None = None
    interrupted: bool = False
    extra: dict[str, Any] = {}
