"""`embedding/local_model.py`: `guepard.load(...).infer` beside a call of the ONNX Runtime session, on the MLP, per row.

A direct call gathers nothing, checks nothing and has no deadline; alone it also wakes no other thread. With many
callers at once `infer` runs their rows in batches, which the direct calls do not.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import guepard
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from benchmarks.serving.raw_engine import open_session

CALLS, CALLERS = 8, 32


def cases() -> list[Case]:
    inputs = {MLP.input_name: MLP.sample(1)}
    session, model, pool = open_session(MLP), guepard.load(MLP.path()), ThreadPoolExecutor(CALLERS)

    def run() -> object:
        return session.run(None, inputs)

    def infer() -> object:
        return model.infer(inputs)

    def in_threads(call: Callable[[], object]) -> Callable[[], object]:
        def caller(_: int) -> None:
            for _ in range(CALLS):
                call()

        return lambda: list(pool.map(caller, range(CALLERS)))

    async def tasks() -> None:
        async def caller() -> None:
            for _ in range(CALLS):
                await model.infer_async(inputs)

        await asyncio.gather(*[caller() for _ in range(CALLERS)])

    def close() -> None:
        model.close()
        pool.shutdown()

    together = CALLS * CALLERS
    return [
        Case("session.run", run, close=close),
        Case(f"session.run, {CALLERS} threads", in_threads(run), together),
        Case("infer", infer),
        Case(f"infer, {CALLERS} threads", in_threads(infer), together),
        Case(f"infer_async, {CALLERS} tasks", lambda: asyncio.run(tasks()), together),
    ]
