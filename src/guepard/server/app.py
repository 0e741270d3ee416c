"""The composition root: builds every part from the settings and owns none of what they do."""

import asyncio
import io
import sys
from pathlib import Path
from time import monotonic_ns

import uvloop

from guepard import __version__
from guepard.engine.control_plane import ControlPlane
from guepard.engine.data_plane import DataPlane
from guepard.engine.health_watch import HealthWatch
from guepard.engine.loop_scheduler import LoopScheduler
from guepard.engine.model_repository import ModelDefinition, ModelRepository
from guepard.engine.served_model import ServedModel
from guepard.limits.admission import Admission
from guepard.limits.cpu_budget import cpu_budget
from guepard.limits.memory_limit import default_inflight_bytes
from guepard.server.documents import Documents, Readiness
from guepard.server.http.api_routes import api_routes
from guepard.server.http.context import HttpContext, HttpLimits
from guepard.server.http.guard import Guard
from guepard.server.http.metrics_routes import MetricsRoutes
from guepard.server.http.router import Router
from guepard.server.lifecycle import Lifecycle, Plan
from guepard.server.listener import Listener, bind
from guepard.settings.model_location import split_entry
from guepard.settings.model_options import ModelSettings
from guepard.settings.options import ServerSettings, Settings
from guepard.settings.policy import repository_model, to_policy, to_tensor_specs
from guepard.settings.rules import is_loopback, risks
from guepard.telemetry import logging as telemetry_logging
from guepard.telemetry.access_log import AccessLog
from guepard.telemetry.metrics import MetricsRegistry, ModelGauges, ServerGauges

_SECOND_NS = 1e9


def serve(settings: Settings, started_ns: int) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 0 after a drain, 1 when a model that matters failed.

    Raises: ConfigurationError when the server cannot be set up as asked.
    """
    _keep_printed_lines_whole()
    writer = telemetry_logging.configure(settings.logging.level, settings.logging.format, sys.stderr)
    try:
        code: int = uvloop.run(_run(settings, started_ns, writer))
        return code
    finally:
        writer.shutdown()


def _keep_printed_lines_whole() -> None:
    """Whatever a model prints to stderr leaves by whole lines, also under PYTHONUNBUFFERED: never inside a record."""
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(line_buffering=True, write_through=False)


async def _run(settings: Settings, started_ns: int, writer: telemetry_logging.LogWriter) -> int:
    options = settings.server
    # Before any model is loaded, so that a port that is taken fails at once.
    api_socket = bind(options.host, options.http_port, "server.http_port")
    metrics_socket = bind(options.host, options.metrics_port, "server.metrics_port")

    loop = asyncio.get_running_loop()
    admission = Admission(options.max_inflight_bytes or default_inflight_bytes())
    data_plane = DataPlane()
    repository = _repository(settings)
    control_plane = ControlPlane(
        repository,
        data_plane,
        LoopScheduler(loop),
        cpus=cpu_budget(),
        drain_timeout_s=options.drain_timeout / _SECOND_NS,
        frozen=options.model_control_mode == "none",
        on_change=lambda served, serving: _expose(registry, served, serving),
    )
    guard = Guard(
        loopback=is_loopback(options.host),
        hosts=frozenset({options.host.lower(), *(host.lower() for host in options.allowed_hosts)}),
        anonymous=frozenset(settings.auth.anonymous),
    )
    readiness = Readiness(control_plane)
    documents = Documents(data_plane, control_plane, readiness)
    router = Router(api_routes(data_plane, documents, guard))
    registry = MetricsRegistry(
        __version__,
        router.labels | {"/metrics"},
        ServerGauges(
            http_connections=lambda: sum(len(listener.context.connections) for listener in listeners),
            inflight_bytes=lambda: admission.inflight_bytes,
            log_records_dropped=writer.dropped,
        ),
    )
    access_log = AccessLog(settings.logging.sample_rate, monotonic_ns)
    listeners = [
        Listener(socket, HttpContext(routes, _limits(options), admission, registry, access_log))
        for socket, routes in (
            (api_socket, router),
            (metrics_socket, Router(MetricsRoutes(registry, guard).routes(), "this port serves /metrics")),
        )
    ]
    plan = Plan(
        started_ns=started_ns,
        host=options.host,
        load=options.load_model if options.model_control_mode == "explicit" else None,
        exit_on_error=options.exit_on_error,
        pre_stop_delay_s=options.pre_stop_delay / _SECOND_NS,
        drain_timeout_s=options.drain_timeout / _SECOND_NS,
        welcome=settings.logging.format == "console",
        risks=tuple(risks(settings)),
    )
    health = asyncio.ensure_future(HealthWatch(data_plane).run())
    try:
        lifecycle = Lifecycle(plan, repository, control_plane, readiness, listeners, access_log, writer)
        return await lifecycle.run()
    finally:
        health.cancel()


def _expose(registry: MetricsRegistry, served: ServedModel, serving: bool) -> None:
    """Show a model version's numbers at `/metrics` from when it starts to when it stops being served."""
    name, version = served.config.name, served.config.version
    if not serving:
        registry.remove_model(name, version)
        return
    gauges = ModelGauges(
        queue_depth=lambda: served.queue_depth,
        executing=lambda: served.executing,
        ready=lambda: served.accepts,
        load_duration_ns=lambda: served.load_duration_ns,
    )
    registry.add_model(name, version, served.statistics, gauges)


def _repository(settings: Settings) -> ModelRepository:
    return ModelRepository(
        [_definition(model) for model in settings.models],
        [Path(folder) for folder in settings.model_repository],
        template=_definition(repository_model(settings, "model", ".")),
    )


def _definition(model: ModelSettings) -> ModelDefinition:
    path, entry = split_entry(model.path or ".")
    return ModelDefinition(
        name=model.name,
        path=path,
        policy=to_policy(model),
        backend=model.backend,
        entry=entry,
        trusted=bool(model.trust),
        required=model.required,
        inputs=to_tensor_specs(model.inputs),
        outputs=to_tensor_specs(model.outputs),
    )


def _limits(options: ServerSettings) -> HttpLimits:
    return HttpLimits(
        max_request_bytes=int(options.max_request_bytes),
        header_timeout_ns=int(options.header_timeout),
        body_timeout_ns=int(options.body_timeout),
        keep_alive_ns=int(options.keep_alive),
    )
