"""What does one request cost between the socket's bytes and the answer's bytes, and what do the memo of heads and a
frozen heap save?

The real connection, router, codec, engine and ONNX Runtime session of the MLP, on a scheduler that is turned by hand:
no kernel, no uvloop. Each figure is the best of several repeats, in microseconds of wall time per request, so it is
steadier than a load test and leaves out what the system calls cost (about two thirds of the whole).

    python -m benchmarks.micro.request_path
"""

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Sequence
from itertools import cycle
from time import monotonic_ns, perf_counter

from benchmarks.models import MODELS
from benchmarks.serving.payload import Payload, binary_payload, json_payload, predict_payload
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
from guepard.server.http.router import Router
from guepard.telemetry.access_log import AccessLog
from guepard.telemetry.log_settings import LogSettings
from guepard.telemetry.metrics import MetricsRegistry, ServerGauges

REPEATS = 9
REQUESTS = 8_000
TURN_SIZES = (1, 8, 64)
SECOND = 1_000_000_000

Turn = Callable[[], None]


class HandScheduler:
    """Runs what was asked for soon when told to; the models measured here need no timers."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def now(self) -> int:
        return monotonic_ns()

    def call_soon(self, callback: Callable[[], None]) -> object:
        self._soon.append(callback)
        return callback

    def call_at(self, when: int, callback: Callable[[], None]) -> "HandScheduler":
        raise AssertionError("an inline model without a delay sets no timer")

    def cancel(self) -> None:
        """A timer handle's part, for the type's sake."""

    def turn(self) -> None:
        callbacks, self._soon = self._soon, []
        for callback in callbacks:
            callback()


class NullTransport(asyncio.Transport):
    """Takes answers and drops them."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.last = bytes(data)

    def resume_reading(self) -> None:
        pass


async def build(scheduler: HandScheduler) -> HttpContext:
    data_plane = DataPlane()
    definition = ModelDefinition("mlp", MODELS["mlp"].path(), ModelPolicy())
    control_plane = ControlPlane(
        ModelRepository([definition], [], definition),
        data_plane,
        scheduler,
        resources=Resources(1, 2**30),
        drain_timeout_s=1,
        frozen=True,
        on_change=lambda served, serving: None,
    )
    failures = await control_plane.start(None)
    assert not failures, failures
    guard = Guard(loopback=True, hosts=frozenset(), anonymous=frozenset())
    documents = Documents(data_plane, control_plane, Readiness(control_plane), LogSettings("info", None))
    router = Router(api_routes(data_plane, documents, guard))
    gauges = ServerGauges(lambda: 0, lambda: 0, lambda: 0, lambda: 0, lambda: 0)
    registry = MetricsRegistry("benchmark", router.labels, gauges)
    limits = HttpLimits(2**27, 10 * SECOND, 30 * SECOND, 75 * SECOND)
    return HttpContext(router, limits, Admission(2**30), registry, AccessLog(0.01, monotonic_ns))


def connect(context: HttpContext, count: int) -> list[HttpConnection]:
    connections = []
    for _ in range(count):
        connection = HttpConnection(context)
        connection.connection_made(NullTransport())
        connections.append(connection)
    return connections


def message(payload: Payload) -> bytes:
    head = [f"POST {payload.path} HTTP/1.1", "Host: 127.0.0.1:8000"]
    head += [f"{name}: {value}" for name, value in payload.headers.items()]
    head += [f"Content-Length: {len(payload.body)}", "", ""]
    return "\r\n".join(head).encode() + payload.body


def cost(scheduler: HandScheduler, connections: Sequence[HttpConnection], messages: Sequence[bytes]) -> float:
    """Microseconds per request when each connection brings the next of `messages` in every turn."""
    turns = max(1, REQUESTS // len(connections))
    following = cycle(messages)

    def run() -> None:
        for _ in range(turns):
            for connection in connections:
                connection.data_received(next(following))
            scheduler.turn()

    run()
    best = float("inf")
    for _ in range(REPEATS):
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return best / turns / len(connections) * 1e6


async def main() -> None:
    logging.disable(logging.CRITICAL)
    scheduler = HandScheduler()
    context = await build(scheduler)
    mlp = MODELS["mlp"]
    plain, binary = message(json_payload(mlp)), message(binary_payload(mlp))
    # More heads than the memo holds, in a circle: each has been forgotten when it comes again, and is parsed.
    unknown = [plain.replace(b"\r\nHost", b"\r\nX-Turn: %d\r\nHost" % number) for number in range(2_000)]

    print(f"{'microseconds per request':38}" + "".join(f"{f'{size} a turn':>12}" for size in TURN_SIZES))
    rows: list[tuple[str, list[bytes]]] = [
        ("V2 JSON, head seen before", [plain]),
        ("V2 JSON, head never seen before", unknown),
        ("V2 binary tensors", [binary]),
        ("V1 predict", [message(predict_payload(mlp))]),
    ]
    for label, messages in rows:
        report(label, [cost(scheduler, connect(context, size), messages) for size in TURN_SIZES])

    gc.collect()
    print(f"a full collection stops the loop for {pause_ms():.1f} ms, and for {frozen_pause_ms():.1f} ms once frozen")


def pause_ms() -> float:
    start = perf_counter()
    gc.collect()
    return (perf_counter() - start) * 1e3


def frozen_pause_ms() -> float:
    gc.freeze()
    return pause_ms()


def report(label: str, costs: Sequence[float]) -> None:
    print(f"{label:38}" + "".join(f"{value:12.2f}" for value in costs))
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
