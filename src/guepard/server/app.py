"""The composition root: builds every part of a server from the settings and owns none of what they do.

An `Application` is what serves; the process around it belongs to whoever runs it, `lifecycle` or a user's program.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, NamedTuple

from guepard import __version__
from guepard.core.buffers import BufferPool
from guepard.core.errors import ConfigurationError, LoadError
from guepard.core.model import Model
from guepard.core.regions import NOT_ALLOWED
from guepard.engine.background import in_thread
from guepard.engine.buffer_pools import BufferPools
from guepard.engine.control_plane import ControlPlane
from guepard.engine.data_plane import DataPlane
from guepard.engine.health_watch import HealthWatch
from guepard.engine.loop_scheduler import LoopScheduler
from guepard.engine.memory_watch import MemoryWatch
from guepard.engine.model_repository import ModelDefinition, ModelRepository
from guepard.engine.resources import Resources
from guepard.engine.served_model import ServedModel
from guepard.limits.admission import Admission
from guepard.limits.cpu_budget import cpu_budget
from guepard.limits.memory_limit import default_inflight_bytes, default_pool_bytes, memory_limit
from guepard.memory.heap_arena import HeapArena
from guepard.memory.slab_pool import SlabPool
from guepard.protocols.error_body import OWN_STATUSES, TRITON_STATUSES
from guepard.server.cache_folder import cache_folder
from guepard.server.documents import Documents, Readiness
from guepard.server.http.api_routes import api_routes
from guepard.server.http.coders import Coders
from guepard.server.http.context import HttpContext, HttpLimits
from guepard.server.http.guard import Guard
from guepard.server.http.metrics_routes import MetricsRoutes
from guepard.server.http.router import Router
from guepard.server.listener import HttpListener, Listener, bind
from guepard.settings.model_location import split_entry
from guepard.settings.model_options import ModelSettings
from guepard.settings.options import ServerSettings, Settings
from guepard.settings.policy import repository_model, to_policy, to_tensor_specs
from guepard.settings.rules import is_loopback
from guepard.telemetry.access_log import AccessLog
from guepard.telemetry.log_settings import LogSettings
from guepard.telemetry.logging import LogWriter
from guepard.telemetry.metrics import MetricsRegistry, ModelGauges, ServerGauges, prepare
from guepard.transport.shared_memory import SharedMemory

if TYPE_CHECKING:
    from guepard.server.grpc.listener import GrpcListener

log = logging.getLogger("guepard")

_SECOND_NS = 1e9

Classes = Mapping[str, type[Model]]
"""Classes that a program handed over as models, by the name of the model in the settings."""


class Engine(NamedTuple):
    """Which models there are, which of them serve, and what loads them."""

    repository: ModelRepository
    data_plane: DataPlane
    control_plane: ControlPlane


def build_engine(
    settings: Settings,
    classes: Classes,
    on_change: Callable[[ServedModel, bool], None],
    buffers: BufferPool | None = None,
) -> Engine:
    """An engine on the running event loop, with nothing loaded. `on_change` is as ControlPlane has it, and `buffers` as
    Resources has them."""
    options = settings.server
    repository = ModelRepository(
        [_definition(model, classes.get(model.name)) for model in settings.models],
        [Path(folder) for folder in settings.model_repository],
        template=_definition(repository_model(settings, "model", ".")),
    )
    data_plane = DataPlane()
    control_plane = ControlPlane(
        repository,
        data_plane,
        LoopScheduler(asyncio.get_running_loop()),
        resources=Resources(
            _cpus(options), memory_limit(), options.profile, cache_folder(options.cache_dir, options.profile), buffers
        ),
        drain_timeout_s=options.drain_timeout / _SECOND_NS,
        frozen=options.model_control_mode == "none",
        on_change=on_change,
    )
    return Engine(repository, data_plane, control_plane)


class Application:
    """One server: ports, front ends and the engine behind them. Built and run on one event loop, of any thread.

    `start`, then `load`, then it serves; `drain`, then `close`. After `start` has failed or been given up, or instead
    of a drain, `close` alone releases everything. Nothing here knows of signals, of how logs are written, or of the
    process ending.

    Raises: ConfigurationError when a port cannot be had. They are all taken before any model is read.
    """

    def __init__(self, settings: Settings, log_writer: LogWriter | None = None, classes: Classes | None = None) -> None:
        options = settings.server
        self._settings = settings
        self._grpc: GrpcListener | None = None
        with ExitStack() as taken:  # given back unless everything could be built
            api_socket = taken.enter_context(bind(options.host, options.http_port, "server.http_port"))
            metrics_socket = taken.enter_context(bind(options.host, options.metrics_port, "server.metrics_port"))

            admission = Admission(options.max_inflight_bytes or default_inflight_bytes())
            low_memory = options.profile == "low-memory"
            buffers = None if low_memory else SlabPool(HeapArena(), limit_bytes=default_pool_bytes())
            self.engine = build_engine(
                settings, classes or {}, lambda served, serving: _expose(registry, served, serving), buffers
            )
            _, data_plane, control_plane = self.engine
            self._memory_watch = MemoryWatch(data_plane)
            self._pools = pools = BufferPools(data_plane, buffers)
            guard = Guard(
                loopback=is_loopback(options.host),
                hosts=frozenset({options.host.lower(), *(host.lower() for host in options.allowed_hosts)}),
                anonymous=frozenset(settings.auth.anonymous),
            )
            self.readiness = Readiness(control_plane)
            self._shared_memory = SharedMemory(options.allow_client_shm) if options.allow_client_shm else None
            regions = self._shared_memory or NOT_ALLOWED
            extensions = ("system_shared_memory",) if options.allow_client_shm else ()
            log_settings = LogSettings(settings.logging.level, log_writer)
            documents = Documents(data_plane, control_plane, self.readiness, log_settings, extensions)
            statuses = TRITON_STATUSES if options.triton_compat else OWN_STATUSES
            router = Router(api_routes(data_plane, documents, guard, statuses, regions))
            registry = MetricsRegistry(
                __version__,
                router.labels | {"/metrics"},
                ServerGauges(
                    grpc_calls=lambda: self._grpc.calls if self._grpc is not None else 0,
                    http_connections=lambda: sum(len(context.connections) for context in contexts),
                    inflight_bytes=lambda: admission.inflight_bytes,
                    log_records_dropped=log_writer.dropped if log_writer is not None else lambda: 0,
                    memory_trimmed_bytes=lambda: self._memory_watch.trimmed_bytes,
                    pools=pools.samples,
                ),
            )
            self._access_log = AccessLog(settings.logging.sample_rate, monotonic_ns)
            metrics_router = Router(MetricsRoutes(registry, guard).routes(), "this port serves /metrics")
            self._coders = coders = Coders()
            self._decoders = decoders = Coders.for_bodies(os.cpu_count() or 1)
            limits, log = _limits(options), self._access_log
            contexts = [
                HttpContext(routes, limits, admission, registry, log, statuses, coders, decoders, buffers)
                for routes in (router, metrics_router)
            ]
            api_context, metrics_context = contexts
            # By what its port is called: `http` is `server.http_port`. In the order of their start and of their end.
            self.listeners: dict[str, Listener] = {
                "http": HttpListener(api_socket, api_context),
                "metrics": HttpListener(metrics_socket, metrics_context),
            }
            if options.grpc_port != "none":
                from guepard.server.grpc.build import build_listener  # costs 20 MB and 100 ms, so not without need
                from guepard.server.grpc.listener import GrpcContext

                context = GrpcContext(
                    int(options.max_request_bytes),
                    int(options.header_timeout),
                    admission,
                    registry,
                    self._access_log,
                    statuses,
                    options.grpc_infer_response_compression_level,
                )
                self._grpc = build_listener(context, data_plane, documents, guard, regions)
                self._grpc.bind(options.host, options.grpc_port)
                self.listeners["grpc"] = self._grpc
            taken.pop_all()
        self._watches: list[asyncio.Task[None]] = []
        self._preparing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Answer on every port; until `load` is done the server says that it is not ready."""
        for listener in self.listeners.values():
            await listener.start()
        watches = (HealthWatch(self.engine.data_plane), self._memory_watch, self._pools)
        self._watches = [asyncio.ensure_future(watch.run()) for watch in watches]
        log.info("listening on port %d, loading models", self.listeners["http"].port)

    async def load(self) -> list[LoadError]:
        """Load the models. Returns what failed; the others serve.

        Raises: ConfigurationError for a model to load that does not exist.
        """
        options = self._settings.server
        names = list(options.load_model) if options.model_control_mode == "explicit" else None
        try:
            failures = await self.engine.control_plane.start(names)
        except LoadError as error:
            raise ConfigurationError(f"server.load_model: {error}") from None
        self._preparing = asyncio.ensure_future(in_thread("prepare-metrics", prepare))
        return failures

    async def drain(self) -> None:
        """Not ready first, then no new callers, then the last answers."""
        options = self._settings.server
        self.readiness.is_stopping = True
        delay_s = options.pre_stop_delay / _SECOND_NS
        if delay_s:
            log.info("not ready any more; draining begins in %g s", delay_s)
            await asyncio.sleep(delay_s)
        log.info("draining: no new connections, waiting for the requests that were accepted")
        for listener in self.listeners.values():
            listener.stop_accepting()
        timeout_s = options.drain_timeout / _SECOND_NS
        # Callers end with the answers they are still owed, also for bodies that are on their way.
        owing = [listener for name, listener in self.listeners.items() if name != "metrics"]
        await asyncio.gather(*[listener.wait_until_empty(timeout_s) for listener in owing])

    async def close(self) -> bool:
        """Cut off what is left: the models with the requests inside, then the listeners. False if there was some."""
        self.readiness.is_stopping = True
        for watch in self._watches:
            watch.cancel()
        if self._preparing is not None:
            await self._preparing
        drained = await self.engine.control_plane.stop(timeout_s=0)
        for listener in self.listeners.values():
            await listener.close()
        await asyncio.sleep(0)  # in which connections learn that they are lost, and end what ran for them
        self._coders.close()
        self._decoders.close()
        if self._shared_memory is not None:
            self._shared_memory.unregister(None)
        self._access_log.close()
        log.info("stopped" if drained else "stopped; requests that outlasted drain_timeout were cut off")
        return drained


def _expose(registry: MetricsRegistry, served: ServedModel, serving: bool) -> None:
    """Show a model version's numbers at `/metrics` from when it starts to when it stops being served."""
    name, version = served.config.name, served.config.version
    if not serving:
        registry.remove_model(name, version)
        return
    gauges = ModelGauges(
        queue_depth=lambda: served.queue_depth,
        executing=lambda: served.executing,
        ready=lambda: served.is_fit,
        load_duration_ns=lambda: served.load_duration_ns,
        losses=lambda: served.losses,
        process_memory=lambda: [process.memory_bytes for process in served.processes],
        engine=served.config.engine,
        precision=served.config.precision,
        engine_ratio=served.config.engine_ratio,
        fallback="fallback" in served.config.engine_facts,
    )
    registry.add_model(name, version, served.statistics, gauges)


def _definition(model: ModelSettings, model_class: type[Model] | None = None) -> ModelDefinition:
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
        model_class=model_class,
    )


def _cpus(options: ServerSettings) -> int:
    """How many CPUs models are given; that and its reasons go to the log."""
    budget = cpu_budget()
    if options.cpus != "auto":
        log.info("CPUs for models: %d, as configured (%s)", options.cpus, budget)
        if options.cpus > budget.cpus:
            log.warning(
                "server.cpus is %d, and this process may use %d: instances wait for one another, and models take "
                "longer to load; write auto, or at most %d",
                options.cpus,
                budget.cpus,
                budget.cpus,
            )
        return options.cpus
    log.info("CPUs for models: %d (%s)", budget.cpus, budget)
    return budget.cpus


def _limits(options: ServerSettings) -> HttpLimits:
    return HttpLimits(
        max_request_bytes=int(options.max_request_bytes),
        header_timeout_ns=int(options.header_timeout),
        body_timeout_ns=int(options.body_timeout),
        keep_alive_ns=int(options.keep_alive),
    )
