"""The server that serves the MLP, all of it but the sockets, the event loop and the log's writer."""

import asyncio
from functools import cache

from benchmarks.micro.stage.scheduler import HandScheduler
from benchmarks.models import MLP
from guepard.core.model_config import ModelPolicy
from guepard.engine.control_plane import ControlPlane
from guepard.engine.data_plane import DataPlane
from guepard.engine.model_repository import ModelDefinition, ModelRepository
from guepard.engine.resources import Resources
from guepard.limits.admission import Admission
from guepard.server.documents import Documents, Readiness
from guepard.server.http.api_routes import api_routes
from guepard.server.http.connection import HttpConnection
from guepard.server.http.context import HttpContext, HttpLimits
from guepard.server.http.guard import Guard
from guepard.server.http.router import Route, Router
from guepard.telemetry.access_log import AccessLog
from guepard.telemetry.log_settings import LogSettings
from guepard.telemetry.metrics import MetricsRegistry, ServerGauges

_SECOND = 1_000_000_000


class NullTransport(asyncio.Transport):
    """Takes answers and drops them."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.last = bytes(data)

    def resume_reading(self) -> None:
        pass


class SocketlessServer:
    """`turn` ends a turn of the loop."""

    def __init__(self) -> None:
        self.scheduler = HandScheduler()
        self.turn = self.scheduler.turn
        self.data_plane = DataPlane()
        asyncio.run(self._load())
        guard = Guard(loopback=True, hosts=frozenset(), anonymous=frozenset())
        control_plane = self._control_plane
        documents = Documents(self.data_plane, control_plane, Readiness(control_plane), LogSettings("info", None))
        self.context = context(api_routes(self.data_plane, documents, guard))

    def connect(self, count: int) -> list[HttpConnection]:
        return connect(self.context, count)

    async def _load(self) -> None:
        definition = ModelDefinition(MLP.name, MLP.path(), ModelPolicy())
        self._control_plane = ControlPlane(
            ModelRepository([definition], [], definition),
            self.data_plane,
            self.scheduler,
            resources=Resources(1, 2**30),
            drain_timeout_s=1,
            frozen=True,
            on_change=lambda served, serving: None,
        )
        failures = await self._control_plane.start(None)
        assert not failures, failures


def busy_access_log() -> AccessLog:
    """One that logs every hundredth request, as under full load: its first second has passed its limit, and never ends.

    A case runs for a millisecond now and then, which would pass for light traffic, of which every line is logged.
    """
    return AccessLog(0.01, lambda: 2**62)


def context(routes: list[Route]) -> HttpContext:
    router = Router(routes)
    registry = MetricsRegistry("benchmark", router.labels, ServerGauges(int, int, int, int, int))
    limits = HttpLimits(2**27, 10 * _SECOND, 30 * _SECOND, 75 * _SECOND)
    return HttpContext(router, limits, Admission(2**30), registry, busy_access_log())


def connect(shared: HttpContext, count: int) -> list[HttpConnection]:
    connections = []
    for _ in range(count):
        connection = HttpConnection(shared)
        connection.connection_made(NullTransport())
        connections.append(connection)
    return connections


@cache
def server() -> SocketlessServer:
    """One for all cases of a process."""
    return SocketlessServer()
