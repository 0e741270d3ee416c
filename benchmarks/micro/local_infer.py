"""What does `guepard.load(...).infer` cost beside calling the ONNX Runtime session directly?

The MLP, one row per call. CPU time of the whole process per call, all its threads together, in microseconds. The sides
take turns, a ratio is taken within a turn, and the median of the turns is told. A direct call gathers nothing, checks
nothing and has no deadline; alone it also wakes no other thread. With many callers at once `infer` runs their rows in
batches, which the direct calls do not.

    python -m benchmarks.micro.local_infer
"""

import asyncio
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import onnxruntime

import guepard
from benchmarks.models import MODELS

TURNS = 9
CALLS = 6_400
CALLERS = 32

Side = Callable[[], None]


def cpu_per_call(side: Side) -> float:
    start = time.process_time()
    side()
    return (time.process_time() - start) / CALLS * 1e6


def main() -> None:
    mlp = MODELS["mlp"]
    path = mlp.path()
    inputs = {mlp.input_name: mlp.sample(1)}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    with guepard.load(path) as model, ThreadPoolExecutor(CALLERS) as pool:

        def repeat(call: Callable[[], object], times: int = CALLS) -> None:
            for _ in range(times):
                call()

        def ask() -> object:
            return model.infer(inputs)

        def run() -> object:
            return session.run(None, inputs)

        def in_threads(call: Callable[[], object]) -> None:
            list(pool.map(lambda _: repeat(call, CALLS // CALLERS), range(CALLERS)))

        async def tasks() -> None:
            async def caller() -> None:
                for _ in range(CALLS // CALLERS):
                    await model.infer_async(inputs)

            await asyncio.gather(*[caller() for _ in range(CALLERS)])

        sides: dict[str, Side] = {
            "session.run": lambda: repeat(run),
            f"session.run, {CALLERS} threads": lambda: in_threads(run),
            "infer": lambda: repeat(ask),
            f"infer, {CALLERS} threads": lambda: in_threads(ask),
            f"infer_async, {CALLERS} tasks": lambda: asyncio.run(tasks()),
        }
        for side in sides.values():
            side()
        costs: dict[str, list[float]] = {label: [] for label in sides}
        for _ in range(TURNS):
            for label, side in sides.items():
                costs[label].append(cpu_per_call(side))

    print(f"{'CPU per call':32}{'µs':>8}{'of session.run':>18}")
    for label, values in costs.items():
        ratio = median(value / alone for value, alone in zip(values, costs["session.run"], strict=True))
        print(f"{label:32}{median(values):8.1f}{ratio:16.1f} ×")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
