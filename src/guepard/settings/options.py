"""The whole configuration as one tree of frozen structs. Each option is declared here or in `model_options`, once."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from guepard.settings.markers import DefaultText, Metavar, Note, Positive, SwitchPrefix
from guepard.settings.model_options import ModelOptions, ModelSettings
from guepard.settings.units import ByteSize, Duration

Port = Annotated[int, Meta(ge=0, le=65_535)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Cpus = Annotated[int, Meta(ge=1, le=1_024)]


class ServerSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    host: Annotated[
        str,
        Meta(description="Address to listen on; beyond loopback, management and metrics need `auth.anonymous`."),
        Metavar("ADDRESS"),
    ] = "127.0.0.1"
    http_port: Annotated[Port, Meta(description="Port of the HTTP API; 0 takes any free one.")] = 8_000
    grpc_port: Annotated[
        Port | Literal["none"], Meta(description="Port of the gRPC API; 0 takes any free one, none serves no gRPC.")
    ] = 8_001
    grpc_infer_response_compression_level: Annotated[
        Literal["none", "low", "medium", "high"],
        Meta(description="How hard gRPC answers are compressed, for clients that take gzip or deflate."),
    ] = "none"
    metrics_port: Annotated[Port, Meta(description="Port of `/metrics`; 0 takes any free one.")] = 8_002
    workers: Annotated[
        Literal[1], Meta(description="Processes that serve."), Note("this version serves with one worker")
    ] = 1
    max_request_bytes: Annotated[
        ByteSize, Meta(description="Largest request body; a larger one is answered 413."), Positive()
    ] = ByteSize.read("128MiB")
    max_inflight_bytes: Annotated[
        ByteSize | None,
        Meta(description="Request bodies held at once; beyond it requests are answered 429."),
        Positive(),
        DefaultText("the smaller of 1GiB and a quarter of the memory limit"),
    ] = None
    header_timeout: Annotated[Duration, Meta(description="Longest wait for a complete request head."), Positive()] = (
        Duration.read("10s")
    )
    body_timeout: Annotated[Duration, Meta(description="Longest pause while a body arrives."), Positive()] = (
        Duration.read("30s")
    )
    keep_alive: Annotated[
        Duration, Meta(description="How long an idle connection stays open; longer than the proxy's own.")
    ] = Duration.read("75s")
    drain_timeout: Annotated[Duration, Meta(description="Longest wait for accepted requests after SIGTERM.")] = (
        Duration.read("30s")
    )
    pre_stop_delay: Annotated[
        Duration,
        Meta(description="Time between not-ready and the drain, for load balancers to look away."),
        DefaultText("0; 5s in Kubernetes"),
    ] = Duration(0)
    model_control_mode: Annotated[
        Literal["none", "explicit"] | None,
        Meta(
            description="none: all models are loaded at start, for good. explicit: only those of `load_model`, others "
            "over the API. Unset: all at start, and the API may load and unload."
        ),
        Note("polling the repository is not part of this version"),
    ] = None
    load_model: Annotated[
        tuple[str, ...],
        Meta(description="Models loaded at start under `model_control_mode: explicit`; `*` for all."),
        Metavar("NAME"),
    ] = ()
    allow_client_shm: Annotated[
        tuple[str, ...],
        Meta(
            description="Shared memory objects that clients may register: those whose name begins with one of these "
            "texts. Unset: shared memory is off."
        ),
        Metavar("PREFIX"),
        DefaultText("empty: shared memory is off"),
    ] = ()
    cpus: Annotated[
        Cpus | Literal["auto"],
        Meta(
            description="CPUs that instances and their threads are reckoned by; auto: what the cgroup's quota, the "
            "cpuset and the affinity allow, in whole CPUs."
        ),
    ] = "auto"
    profile: Annotated[
        Literal["standard", "low-memory"],
        Meta(description="low-memory: slower, for small devices; one instance a model, nothing kept at hand."),
    ] = "standard"
    cache_dir: Annotated[
        str | None,
        Meta(
            description="Folder for what is worth keeping between runs, such as weights made ready; none keeps nothing."
        ),
        Metavar("DIR"),
        DefaultText("guepard in $XDG_CACHE_HOME, or in ~/.cache"),
    ] = None
    trust: Annotated[bool, Meta(description="Let Python code found in model folders run.")] = False
    triton_compat: Annotated[
        bool,
        Meta(description="Answer not-ready with 400 and a full queue with 503 (gRPC: UNAVAILABLE), as Triton does."),
    ] = False
    exit_on_error: Annotated[
        bool, Meta(description="Exit when a model fails to load, instead of serving the others.")
    ] = False
    allowed_hosts: Annotated[
        tuple[str, ...],
        Meta(description="Host names under which management routes answer, beside loopback names and `host`."),
        Metavar("HOST"),
    ] = ()


class AuthSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    anonymous: Annotated[
        tuple[Literal["infer", "manage", "observe"], ...],
        Meta(
            description="What callers without credentials may do beyond loopback: manage (load, unload, settings), "
            "observe (metrics, statistics), infer (open to all in this version)."
        ),
        Metavar("VERB"),
    ] = ()


class LoggingSettings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least severe records that are written.")
    ] = "info"
    format: Annotated[
        Literal["console", "json"],
        Meta(description="Lines for people or one JSON object per line."),
        DefaultText("console on a terminal, json elsewhere"),
    ] = "console"
    sample_rate: Annotated[
        Fraction,
        Meta(description="Share of successful requests logged under load; errors are logged up to 100 a second."),
    ] = 0.01


class Settings(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    server: Annotated[ServerSettings, Meta(description="The process, its ports and its bounds."), SwitchPrefix("")] = (
        ServerSettings()
    )
    models: Annotated[tuple[ModelSettings, ...], Meta(description="The models to serve.")] = ()
    defaults: Annotated[ModelOptions, Meta(description="Options for every model that does not say otherwise.")] = (
        ModelOptions()
    )
    auth: Annotated[AuthSettings, Meta(description="Who may do what."), SwitchPrefix("auth")] = AuthSettings()
    logging: Annotated[LoggingSettings, Meta(description="The log on stderr."), SwitchPrefix("log")] = LoggingSettings()
    model_repository: Annotated[
        tuple[str, ...],
        Meta(description="Folders of model folders in Triton's layout."),
        Metavar("DIR"),
    ] = ()
