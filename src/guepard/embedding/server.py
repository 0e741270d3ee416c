"""`guepard.serve`: a server inside a program, on a thread and an event loop of its own."""

import atexit
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from guepard.core.errors import LoadError
from guepard.embedding.arguments import ModelsArgument, read_models
from guepard.embedding.loop_thread import Ended, LoopThread
from guepard.server.app import Application, Classes
from guepard.settings.options import Settings
from guepard.settings.resolve import resolve_in_program

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def serve(
    models: "ModelsArgument" = (),  # quoted for the sake of help()
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    **options: Any,
) -> "Server":
    """Serve models from within this program. Returns once they are ready; the server runs on, on its own thread.

        import guepard

        with guepard.serve("classifier.onnx", http_port=0, metrics_port=0) as server:
            print(server.url)  # http://127.0.0.1:43521; /v2/models/classifier/infer answers there

    `models` is one of these, a list of them, or a mapping from names to them: an ONNX file, a model folder or a model
    repository (text or a Path), "NAME=PATH", "module.py:Class", or a subclass of `guepard.Model`, which is called as
    its class in snake case. A class is the program's own code and runs; folders that hold code need `trust=True`.

    `config` is the path of a guepard.yaml, or a dict of the same form. `options` are those of its `server` section by
    name, with the same values: `http_port=0`, `host="0.0.0.0"`, `trust=True`, `max_request_bytes="64MiB"`. They win
    over GUEPARD_ environment variables, these over `config`; GUEPARD_CONFIG is not read. A port of 0 is any free one;
    by default the server wants 8000 and 8002, and raises when one is taken. gRPC is off unless `grpc_port` is given.

    The program stays as it is: no signal handler, no logging set-up, no change to stdout and stderr. Records go to the
    loggers under `guepard`. The server ends by `stop`, at the end of a `with` block, or at exit.

    Raises: ConfigurationError for what cannot be meant and for ports that are taken; LoadError when a model cannot be
        loaded, unless it is `required: false` or the option `exit_on_error=False` says to serve the others.
    """
    folder = Path.cwd()
    arguments, labels, classes = read_models(models, folder)
    settings = resolve_in_program(
        arguments,
        labels,
        options=options,
        config=os.fspath(config) if isinstance(config, os.PathLike) else config,
        environment=os.environ,
        folder=folder,
    )
    return Server(settings, classes)


class Server:
    """A running server. `guepard.serve` makes it; every method may be called from any thread."""

    def __init__(self, settings: Settings, classes: Classes) -> None:
        self._host = settings.server.host
        self._thread = LoopThread("guepard-server")
        try:
            self._application = self._thread.run(_started(settings, classes))
        except BaseException:
            self._thread.end(_nothing)
            raise
        self._ports = {name: listener.port for name, listener in self._application.listeners.items()}
        atexit.register(self.stop)

    @property
    def url(self) -> str:
        """Where the HTTP API answers, for clients on this machine."""
        host = _ANY_ADDRESS.get(self._host, self._host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.http_port}"

    @property
    def http_port(self) -> int:
        return self._ports["http"]

    @property
    def metrics_port(self) -> int:
        return self._ports["metrics"]

    @property
    def grpc_port(self) -> int | None:
        """None where the server does not listen for gRPC, as by default."""
        return self._ports.get("grpc")

    @property
    def ready(self) -> bool:
        """What `/v2/health/ready` answers."""
        try:
            return self._thread.run(_is_ready(self._application))
        except Ended:
            return False

    def stop(self) -> None:
        """Answer what was accepted, for at most `drain_timeout`, then give back ports and threads.

        May be called again, and from any thread.
        """
        atexit.unregister(self.stop)
        self._thread.end(self._stop)

    def wait(self) -> None:
        """Until the server has been stopped. Ctrl-C stops it, and is thereby dealt with."""
        try:
            self._thread.wait()
        except KeyboardInterrupt:
            self.stop()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<guepard server at {self.url}{' (stopped)' if self._thread.has_ended else ''}>"

    async def _stop(self) -> None:
        await self._application.drain()
        await self._application.close()


async def _started(settings: Settings, classes: Classes) -> Application:
    application = Application(settings, classes=classes)
    try:
        await application.start()
        failures = await application.load()
        if failures and settings.server.exit_on_error and application.engine.control_plane.unready():
            raise LoadError("; ".join(map(str, failures)))
    except BaseException:
        await application.close()
        raise
    return application


async def _is_ready(application: Application) -> bool:
    return application.readiness.obstacle() is None


async def _nothing() -> None:
    """What is left to be done when a start has cleaned up behind itself."""
