"""One server as a process: its log, its signals, its first words and its exit code."""

import asyncio
import gc
import io
import logging
import os
import signal
import sys
from time import monotonic_ns

import uvloop

from guepard import __version__
from guepard.core.errors import LoadError
from guepard.limits.heap import keep_one_heap
from guepard.server.app import Application
from guepard.server.welcome import question_for, welcome
from guepard.settings.options import Settings
from guepard.settings.rules import risks
from guepard.telemetry import logging as telemetry_logging

log = logging.getLogger("guepard")


def serve(settings: Settings, started_ns: int) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 0 after a drain, 1 when a model that matters failed.

    Raises: ConfigurationError when the server cannot be set up as asked.
    """
    _keep_printed_lines_whole()
    if settings.server.profile == "low-memory":
        keep_one_heap()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else the library writes to stderr, between our records
    writer = telemetry_logging.configure(settings.logging.level, settings.logging.format, sys.stderr)
    try:
        code: int = uvloop.run(Lifecycle(settings, started_ns, writer).run())
        return code
    finally:
        writer.shutdown()


def _keep_printed_lines_whole() -> None:
    """Whatever a model prints to stderr leaves by whole lines, also under PYTHONUNBUFFERED: never inside a record."""
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(line_buffering=True, write_through=False)


class Lifecycle:
    """Runs an application from the first connection to the last answer."""

    def __init__(self, settings: Settings, started_ns: int, writer: telemetry_logging.LogWriter) -> None:
        self._settings = settings
        self._started_ns = started_ns
        self._writer = writer
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Returns the exit code. Raises: ConfigurationError for a taken port or a model to load that does not exist."""
        application = Application(self._settings, self._writer)
        self._handle_signals(asyncio.get_running_loop())
        for risk in risks(self._settings):
            log.warning("%s", risk)
        await application.start()
        failures = await self._load(application)
        if failures and self._settings.server.exit_on_error:
            return 1
        if not self._stop.is_set():
            self._announce(application)
            await self._stop.wait()
        await application.drain()
        await application.close()
        return 0

    async def _load(self, application: Application) -> list[LoadError]:
        """Load the models; a signal meanwhile ends the wait."""
        loading = asyncio.ensure_future(application.load())
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not loading.done():
            loading.cancel()
            return []
        return loading.result()

    def _announce(self, application: Application) -> None:
        # What exists now lives as long as the process. A collection that walks it all stops the loop for
        # milliseconds, so the collector is told to leave it alone (ADR 0004).
        gc.collect()
        gc.freeze()
        host = self._settings.server.host
        ports = {name: listener.port for name, listener in application.listeners.items()}
        log.info(
            "guepard %s is serving on http://%s:%d (gRPC %s, metrics on port %d), %.2f s after start",
            __version__,
            f"[{host}]" if ":" in host else host,
            ports["http"],
            f"on port {ports['grpc']}" if "grpc" in ports else "off",
            ports["metrics"],
            (monotonic_ns() - self._started_ns) / 1e9,
            extra={f"{name}_port": port for name, port in ports.items()},
        )
        repository, _, control_plane = application.engine
        unready = control_plane.unready()
        if unready:
            log.error("not ready: %s", ", ".join(unready))
        if self._settings.logging.format == "console":
            definitions = repository.definitions()
            configs = control_plane.configs()
            welcome(
                sys.stdout,
                host,
                ports["http"],
                {config.name: question_for(config, definitions[config.name].path) for config in configs},
            )

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
