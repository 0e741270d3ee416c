"""The life of the process: listen, load, serve, drain, end."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic_ns

from guepard import __version__
from guepard.core.errors import ConfigurationError, LoadError
from guepard.engine.control_plane import ControlPlane
from guepard.engine.model_repository import ModelRepository
from guepard.server.documents import Readiness
from guepard.server.listener import Listener
from guepard.server.welcome import question_for, welcome
from guepard.telemetry.access_log import AccessLog
from guepard.telemetry.logging import LogWriter
from guepard.telemetry.metrics import prepare

log = logging.getLogger("guepard")


@dataclass(frozen=True, slots=True)
class Plan:
    """What the operator asked of this run. `load` None: every model there is."""

    started_ns: int
    host: str
    load: Sequence[str] | None
    exit_on_error: bool
    pre_stop_delay_s: float
    drain_timeout_s: float
    welcome: bool
    risks: tuple[str, ...]


class Lifecycle:
    """Runs the listeners from the first connection to the last answer. The API is the first of `listeners`."""

    def __init__(
        self,
        plan: Plan,
        repository: ModelRepository,
        control_plane: ControlPlane,
        readiness: Readiness,
        listeners: Sequence[Listener],
        access_log: AccessLog,
        writer: LogWriter,
    ) -> None:
        self._plan = plan
        self._repository = repository
        self._control_plane = control_plane
        self._readiness = readiness
        self._listeners = listeners
        self._access_log = access_log
        self._writer = writer
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Returns the exit code. Raises: ConfigurationError for a model to load that does not exist."""
        plan = self._plan
        self._handle_signals(asyncio.get_running_loop())
        for risk in plan.risks:
            log.warning("%s", risk)
        for listener in self._listeners:
            await listener.start()
        log.info("listening on port %d, loading models", self._listeners[0].port)
        failures = await self._load()
        if failures and plan.exit_on_error:
            return 1
        if not self._stop.is_set():
            self._announce()
            await self._stop.wait()
        return await self._shut_down()

    async def _load(self) -> list[LoadError]:
        """Load the models; a signal meanwhile ends the wait."""
        names = None if self._plan.load is None else list(self._plan.load)
        loading = asyncio.ensure_future(self._control_plane.start(names))
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not loading.done():
            loading.cancel()
            return []
        try:
            return loading.result()
        except LoadError as error:
            raise ConfigurationError(f"server.load_model: {error}") from None

    def _announce(self) -> None:
        # What exists now lives as long as the process. A collection that walks it all stops the loop for
        # milliseconds, so the collector is told to leave it alone (ADR 0004).
        gc.collect()
        gc.freeze()
        api, metrics = self._listeners
        host = f"[{self._plan.host}]" if ":" in self._plan.host else self._plan.host
        log.info(
            "guepard %s is serving on http://%s:%d (metrics on port %d), %.2f s after start",
            __version__,
            host,
            api.port,
            metrics.port,
            (monotonic_ns() - self._plan.started_ns) / 1e9,
            extra={"http_port": api.port, "metrics_port": metrics.port},
        )
        unready = self._control_plane.unready()
        if unready:
            log.error("not ready: %s", ", ".join(unready))
        if self._plan.welcome:
            definitions = self._repository.definitions()
            configs = self._control_plane.configs()
            welcome(
                sys.stdout,
                self._plan.host,
                api.port,
                {config.name: question_for(config, definitions[config.name].path) for config in configs},
            )
        asyncio.get_running_loop().run_in_executor(None, prepare)

    async def _shut_down(self) -> int:
        """Not ready first, then no new connections, then the last answers, then the models."""
        self._readiness.is_stopping = True
        delay = self._plan.pre_stop_delay_s
        if delay:
            log.info("not ready any more; draining begins in %g s", delay)
            await asyncio.sleep(delay)
        log.info("draining: no new connections, waiting for the requests that were accepted")
        for listener in self._listeners:
            listener.stop_accepting()
        # Connections end with the answers they still owe, also for bodies that are on their way.
        await self._listeners[0].wait_until_empty(self._plan.drain_timeout_s)
        drained = await self._control_plane.stop(timeout_s=0)
        for listener in self._listeners:
            listener.close()
        self._access_log.close()
        log.info("stopped" if drained else "stopped; requests that outlasted drain_timeout were cut off")
        return 0

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        def on_signal(name: str) -> None:
            if self._stop.is_set():
                log.warning("%s again: exiting at once", name)
                self._writer.shutdown()
                os._exit(1)
            log.info("%s: shutting down", name)
            self._stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal, number.name)
