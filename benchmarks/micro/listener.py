"""`server/grpc/listener.py`: what it does around the method of a call, without the library."""

import asyncio
from contextlib import suppress
from typing import Any, cast

from benchmarks.micro.stage.grpc import AtOnce, CallContext
from benchmarks.micro.stage.server import busy_access_log
from benchmarks.micro.timing.case import Case
from guepard.limits.admission import Admission
from guepard.server.grpc.health import Health
from guepard.server.grpc.listener import GrpcContext, GrpcListener
from guepard.telemetry.metrics import MetricsRegistry, ServerGauges


async def _listener(method: AtOnce) -> GrpcListener:
    registry = MetricsRegistry("benchmark", [method.path], ServerGauges(int, int, int, int, int))
    context = GrpcContext(2**27, 10_000_000_000, Admission(2**30), registry, busy_access_log())
    return GrpcListener(context, [method], cast(Health, _NoHealth()))


class _NoHealth:
    def __getattr__(self, name: str) -> Any:
        return None


def cases() -> list[Case]:
    method, context = AtOnce(), CallContext()
    listener = asyncio.run(_listener(method))

    def call() -> None:
        with suppress(StopIteration):  # how a coroutine returns that waits for nothing
            listener._answer(method, b"message", context).send(None)

    return [Case("answered at once", call)]
