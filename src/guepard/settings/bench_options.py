"""The options of `guepard bench`, each declared once. The command line alone says them: what a result file holds as its
command is then all that led to it."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from guepard.settings.bench_words import Goal, Order, Pattern, Rate, Share
from guepard.settings.markers import DefaultText, Metavar, Positive, SwitchPrefix, Whole
from guepard.settings.units import Duration

Count = Annotated[int, Meta(ge=1)]

USUAL_GATE_LIMIT = 0.1


class RequestOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    protocol: Annotated[
        Literal[
            "auto", "oip-json", "oip-binary", "oip-grpc", "predict",
            "openai-chat", "openai-completions", "openai-embeddings", "http", "in-process",
        ],
        Meta(
            description="How the target is asked; auto finds out from the URL and from the server, in-process calls a "
            "MODEL without one."
        ),
    ] = "auto"  # fmt: skip
    model: Annotated[str | None, Meta(description="The model, where the server has several."), Metavar("NAME")] = None
    model_version: Annotated[str | None, Meta(description="Its version."), Metavar("VERSION")] = None
    header: Annotated[
        tuple[str, ...],
        Meta(description="A header of every request, as 'Name: value'; may be repeated. Secrets stay out of results."),
        Metavar("LINE"),
        Whole(),
    ] = ()
    data: Annotated[
        str | None,
        Meta(description="File or folder of samples to send; without it they are made from the model's metadata."),
        Metavar("FILE"),
    ] = None
    body: Annotated[
        str | None, Meta(description="The body of every request, or fields of OpenAI requests."), Metavar("TEXT")
    ] = None
    batch: Annotated[Count, Meta(description="Rows in each request, where the model takes several.")] = 1
    shape: Annotated[
        tuple[str, ...],
        Meta(description="Shape of an input whose dimensions are free, as NAME:3,224; may be repeated."),
        Metavar("NAME:DIMS"),
        Whole(),
    ] = ()
    method: Annotated[str | None, Meta(description="Method of the requests, for --protocol http.")] = None
    curl: Annotated[
        str | None,
        Meta(description="A curl command whose request is measured, instead of a URL."),
        Metavar("'curl …'"),
    ] = None
    openapi: Annotated[
        str | None,
        Meta(description="OpenAPI document whose example request is measured."),
        Metavar("URL|FILE"),
    ] = None
    operation: Annotated[
        str | None, Meta(description="Operation of the document, as 'POST /path'."), Metavar("OPERATION")
    ] = None
    expect: Annotated[
        str | None,
        Meta(description="Regular expression that must be found in each answer, or it counts as an error."),
        Metavar("REGEX"),
    ] = None
    timeout: Annotated[
        Duration, Meta(description="How long a request may take before it counts as an error."), Positive()
    ] = Duration.read("30s")
    wait_ready: Annotated[
        Duration, Meta(description="How long to wait for a target that is not there or not ready yet.")
    ] = Duration(0)
    insecure: Annotated[bool, Meta(description="Take any TLS certificate.")] = False
    ca_file: Annotated[
        str | None, Meta(description="Certificates to trust instead of the system's, in PEM."), Metavar("FILE")
    ] = None
    metrics_url: Annotated[
        str | None,
        Meta(description="The server's Prometheus page, if it is not where servers usually have it."),
        Metavar("URL"),
    ] = None
    trust: Annotated[bool, Meta(description="Let Python code in the folder of MODEL run.")] = False


class LoadOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    rate: Annotated[
        Rate | None,
        Meta(description="Open loop: requests per second, sent when they are due whatever the server does."),
        DefaultText("half of what a short probe reaches"),
    ] = None
    concurrency: Annotated[
        Count | None, Meta(description="Closed loop: this many callers, each waiting for its answer."), Metavar("N")
    ] = None
    arrivals: Annotated[
        Pattern,
        Meta(
            description="How requests follow one another: constant, poisson, bursts:N (N at once), ramp:RATE (up or "
            "down to that rate), trace:FILE (a time in seconds, or a line of a JSON access log, per line)."
        ),
        Metavar("PATTERN"),
    ] = Pattern("poisson")
    inputs: Annotated[
        Order | None,
        Meta(
            description="Which sample a request sends: cycle (one after the other), unique (none twice), zipf:EXPONENT "
            "(some far more often)."
        ),
        Metavar("ORDER"),
        DefaultText("unique where inputs are made, cycle for samples"),
    ] = None
    duration: Annotated[
        Duration | None,
        Meta(
            description="How long a run lasts, warm-up included; of --find-max the last one, of --compare each turn. "
            "Unset: 10s, 30s with --find-max, 5s with --compare, 600s with --scenario."
        ),
        Positive(),
    ] = None
    requests: Annotated[
        Count | None, Meta(description="How many requests a run sends at most; duration bounds it too."), Metavar("N")
    ] = None
    warmup: Annotated[
        Literal["auto"] | Duration,
        Meta(description="What is cut off at the beginning; auto finds where the figures settle."),
        Metavar("auto|DURATION"),
    ] = "auto"
    processes: Annotated[
        Literal["auto"] | Annotated[int, Meta(ge=1, le=64)],
        Meta(description="Processes that send; auto takes one, and more when one is not enough."),
        Metavar("N|auto"),
    ] = "auto"
    connections: Annotated[
        Count, Meta(description="Most connections at once; over HTTP/1.1 each carries one request."), Metavar("N")
    ] = 1_024
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)], Meta(description="Of everything random: arrivals, inputs, data.")
    ] = 1
    self_test: Annotated[
        bool, Meta(description="Measure first how fast this generator is, against a server that does nothing.")
    ] = True


class QuestionOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    find_max: Annotated[Goal | None, Meta(description="Find the highest rate that keeps a goal such as p99=50ms.")] = (
        None
    )
    slo: Annotated[
        Goal | None, Meta(description="Count as goodput what keeps a goal such as p99=50ms, and judge that percentile.")
    ] = None
    compare: Annotated[
        str | None, Meta(description="Measure this target too, in turns, and say which is faster."), Metavar("TARGET")
    ] = None
    blocks: Annotated[
        Annotated[int, Meta(ge=5, le=1_000)],
        Meta(description="Turns of each side of --compare; --duration is that of one."),
        Metavar("N"),
    ] = 10
    scenario: Annotated[
        Literal["single-stream", "multi-stream", "server", "offline"] | None,
        Meta(description="A load in the manner of MLPerf's scenario; server takes --slo or --find-max."),
    ] = None
    gate: Annotated[
        str | None, Meta(description="Compare with an earlier result; a regression is exit code 1."), Metavar("FILE")
    ] = None
    gate_limit: Annotated[
        Share | None,
        Meta(
            description="How much worse than the earlier result a figure may be; with --compare and no --gate, than "
            "that of TARGET."
        ),
        DefaultText("10% with --gate"),
    ] = None
    max_errors: Annotated[Share, Meta(description="How many requests may fail before a run is INVALID.")] = Share.read(
        "1%"
    )


class OutputOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    report: Annotated[str | None, Meta(description="Write an HTML report to this file."), Metavar("FILE")] = None
    json: Annotated[bool, Meta(description="Print the result as one JSON document.")] = False
    out: Annotated[str | None, Meta(description="Write the result to this file, as JSON."), Metavar("FILE")] = None
    junit: Annotated[
        str | None, Meta(description="Write what --gate found to this file, as JUnit XML."), Metavar("FILE")
    ] = None


class BenchOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`target` is None where --curl or --openapi names it."""

    target: Annotated[str | None, Meta(description="What to measure: a URL, or a MODEL that is served meanwhile.")] = (
        None
    )
    request: Annotated[RequestOptions, Meta(description="What is asked, and how."), SwitchPrefix("")] = RequestOptions()
    load: Annotated[LoadOptions, Meta(description="How much is asked, and when."), SwitchPrefix("")] = LoadOptions()
    question: Annotated[QuestionOptions, Meta(description="What is to be found out."), SwitchPrefix("")] = (
        QuestionOptions()
    )
    output: Annotated[OutputOptions, Meta(description="Where the figures go."), SwitchPrefix("")] = OutputOptions()

    @property
    def duration(self) -> Duration:
        """Of one run: what was said, or what the question needs."""
        if self.load.duration is not None:
            return self.load.duration
        if self.question.scenario is not None:
            return Duration.read("600s")
        if self.question.find_max is not None:
            return Duration.read("30s")
        return Duration.read("5s" if self.question.compare is not None else "10s")

    @property
    def gate_limit(self) -> float | None:
        """The share that may be lost, where a gate was asked for: against a file, or with a limit in a comparison."""
        limit = self.question.gate_limit
        if limit is not None:
            return float(limit)
        return USUAL_GATE_LIMIT if self.question.gate is not None else None
