"""The composition root: builds every part from the settings and owns none of what they do."""

import asyncio
import gc
import logging
import signal
import sys
from pathlib import Path
from time import monotonic_ns

import uvloop

from guepard import __version__
from guepard.core.errors import ConfigurationError, LoadError
from guepard.engine.control_plane import ControlPlane
from guepard.engine.cpu_budget import cpu_budget
from guepard.engine.data_plane import DataPlane
from guepard.engine.loop_scheduler import LoopScheduler
from guepard.engine.model_repository import ModelDefinition, ModelRepository
from guepard.engine.served_model import ServedModel
from guepard.limits.admission import Admission
from guepard.limits.memory_limit import default_inflight_bytes
from guepard.server.http.context import HttpContext, HttpLimits
from guepard.server.http.guard import Guard
from guepard.server.http.router import Router
from guepard.server.http.routes import ApiRoutes, MetricsRoutes
from guepard.server.listener import Listener, bind
from guepard.server.welcome import welcome
from guepard.settings.model_location import split_entry
from guepard.settings.model_options import ModelSettings
from guepard.settings.options import ServerSettings, Settings
from guepard.settings.policy import repository_model, to_policy, to_tensor_specs
from guepard.settings.rules import is_loopback, risks
from guepard.telemetry import logging as telemetry_logging
from guepard.telemetry import metrics
from guepard.telemetry.access_log import AccessLog
from guepard.telemetry.metrics import MetricsRegistry, ModelGauges, ServerGauges

log = logging.getLogger("guepard")

_SECOND_NS = 1e9
# Requests make few cycles, so the collector may look rarely, and never again at what was made at start (ADR 0004).
_GC_THRESHOLD = (50_000, 20, 50)


def serve(settings: Settings, started_ns: int) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 0 after a drain, 1 when a model that matters failed.

    Raises: ConfigurationError when the server cannot be set up as asked.
    """
    writer = telemetry_logging.configure(settings.logging.level, settings.logging.format, sys.stderr)
    try:
        server = Server(settings, started_ns, writer)
        code: int = uvloop.run(server.run())
        return code
    finally:
        writer.shutdown()


class Server:
    """One process that serves. Binding happens here, before any model is loaded, so that a taken port fails at once."""

    def __init__(self, settings: Settings, started_ns: int, writer: telemetry_logging.LogWriter) -> None:
        self._settings = settings
        self._started_ns = started_ns
        options = settings.server
        loopback = is_loopback(options.host)
        guard = Guard(
            loopback=loopback,
            hosts=frozenset({options.host.lower(), *(host.lower() for host in options.allowed_hosts)}),
            anonymous=frozenset(settings.auth.anonymous),
        )
        self._sockets = [
            bind(options.host, options.http_port, "server.http_port"),
            bind(options.host, options.metrics_port, "server.metrics_port"),
        ]
        self._data_plane = DataPlane()
        self._guard = guard
        self._writer = writer
        self._stopping = False

    async def run(self) -> int:
        settings = self._settings
        options = settings.server
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        self._handle_signals(loop, stop)
        admission = Admission(options.max_inflight_bytes or default_inflight_bytes())
        control_plane = ControlPlane(
            self._repository(),
            self._data_plane,
            LoopScheduler(loop),
            cpus=cpu_budget(),
            drain_timeout_s=options.drain_timeout / _SECOND_NS,
            frozen=options.model_control_mode == "none",
            on_change=self._on_change,
        )
        api = ApiRoutes(self._data_plane, control_plane, self._guard, lambda: self._stopping).routes()
        gauges = ServerGauges(
            http_connections=lambda: sum(len(listener.context.connections) for listener in listeners),
            inflight_bytes=lambda: admission.inflight_bytes,
            log_records_dropped=self._writer.dropped,
        )
        api_router = Router(api)
        self._metrics = MetricsRegistry(__version__, api_router.labels | {"/metrics"}, gauges)
        access_log = AccessLog(settings.logging.sample_rate, monotonic_ns)
        metrics_router = Router(MetricsRoutes(self._metrics, self._guard).routes())
        listeners = [
            Listener(socket, HttpContext(router, _limits(options), admission, self._metrics, access_log))
            for socket, router in zip(self._sockets, (api_router, metrics_router), strict=True)
        ]
        for risk in risks(settings):
            log.warning("%s", risk)
        for listener in listeners:
            await listener.start()
        try:
            failures = await self._load(control_plane, stop)
        except LoadError as error:
            raise ConfigurationError(f"server.load_model: {error}") from None
        if failures and options.exit_on_error:
            return 1
        self._announce(listeners, control_plane)
        await stop.wait()
        return await self._shut_down(listeners, control_plane, access_log)

    async def _load(self, control_plane: ControlPlane, stop: asyncio.Event) -> list[LoadError]:
        """Load the models; a signal meanwhile ends the wait."""
        options = self._settings.server
        names = list(options.load_model) if options.model_control_mode == "explicit" else None
        loading = asyncio.ensure_future(control_plane.start(names))
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not loading.done():
            loading.cancel()
            return []
        return loading.result()

    def _announce(self, listeners: list[Listener], control_plane: ControlPlane) -> None:
        # What exists now lives as long as the process: keep the collector from walking it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLD)
        seconds = (monotonic_ns() - self._started_ns) / _SECOND_NS
        host = self._settings.server.host
        http_port, metrics_port = (listener.port for listener in listeners)
        log.info(
            "guepard %s is serving on http://%s:%d (metrics on port %d), %.2f s after start",
            __version__,
            f"[{host}]" if ":" in host else host,
            http_port,
            metrics_port,
            seconds,
            extra={"http_port": http_port, "metrics_port": metrics_port},
        )
        unready = control_plane.unready()
        if unready:
            log.error("not ready: %s", ", ".join(unready))
        if self._settings.logging.format == "console":
            welcome(sys.stderr, host, http_port, [served.config for served in self._data_plane.served().values()])
        asyncio.get_running_loop().run_in_executor(None, metrics.prepare)

    async def _shut_down(self, listeners: list[Listener], control_plane: ControlPlane, access_log: AccessLog) -> int:
        """Not ready first, then no new connections, then the last answers, then the models."""
        options = self._settings.server
        self._stopping = True
        if options.pre_stop_delay:
            log.info("not ready any more; draining begins in %s", options.pre_stop_delay)
            await asyncio.sleep(options.pre_stop_delay / _SECOND_NS)
        log.info("draining: no new connections, waiting for the requests that were accepted")
        for listener in listeners:
            listener.stop_accepting()
        drained = await control_plane.stop()
        for listener in listeners:
            await listener.close(timeout_s=1.0)
        access_log.close()
        log.info("stopped" if drained else "stopped; some requests outlasted drain_timeout and were cut off")
        return 0

    def _handle_signals(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        def on_signal(name: str) -> None:
            if stop.is_set():
                log.warning("%s again: exiting at once", name)
                self._writer.shutdown()
                sys.stderr.flush()
                _exit_now()
            log.info("%s: shutting down", name)
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal, number.name)

    def _on_change(self, served: ServedModel, serving: bool) -> None:
        name, version = served.config.name, served.config.version
        if not serving:
            self._metrics.remove_model(name, version)
            return
        self._metrics.add_model(
            name,
            version,
            served.statistics,
            ModelGauges(
                queue_depth=lambda: served.queue_depth,
                executing=lambda: served.executing,
                ready=lambda: served.accepts,
                load_duration_ns=lambda: served.load_duration_ns,
            ),
        )

    def _repository(self) -> ModelRepository:
        settings = self._settings
        return ModelRepository(
            [_definition(model) for model in settings.models],
            [Path(folder) for folder in settings.model_repository],
            _definition(repository_model(settings, "model", ".")),
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


def _exit_now() -> None:
    import os

    os._exit(1)
