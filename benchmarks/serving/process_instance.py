"""What does a batch cost a model in a process of its own, beside the same model on a thread?

A Python model that gives back what it is given, asked for one batch after another through its executor: on the calling
thread, or in another process, by a frame over a socket and tensors in shared memory. Wall time and CPU time of both
processes together, in microseconds per batch. The sides take turns, and the median of the turns is told.

What it does not show: what a process is for. A batch on a thread keeps every other thread of the server from running
Python for as long as it runs Python itself; one in a process does not.

    python -m benchmarks.serving.process_instance
"""

import os
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

import guepard
from guepard.backends.base import Executor, ModelSource
from guepard.backends.python import PythonBackend
from guepard.core.model_config import ModelPolicy
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY
from guepard.core.tensor import Array
from guepard.engine.processes.model import ProcessModel

TURNS = 9
SIZES = {"4 B": 1, "64 KB": 16_384, "4 MB": 2**20}
BYTES_OF_A_TURN = 2**28
MOST_BATCHES = 4_000


class Echo(guepard.Model):
    """Gives back its input."""

    inputs = (guepard.Tensor("x", "FP32", [-1]),)
    outputs = (guepard.Tensor("y", "FP32", [-1]),)
    max_batch_size = 1

    def predict(self, inputs: dict[str, Array], ctx: guepard.ModelContext) -> dict[str, Array]:
        return {"y": inputs["x"]}


class Cost(NamedTuple):
    """Microseconds per batch."""

    wall: float
    cpu: float


def cpu_ns(pids: list[int]) -> int:
    """CPU time of whole processes. Source: clock_getcpuclockid(3), whose value for a process this is."""
    return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in pids)


def cost(executor: Executor, pids: list[int], x: Array) -> Cost:
    count = min(MOST_BATCHES, BYTES_OF_A_TURN // x.nbytes)
    request = InferenceRequest((), NOBODY, 0)
    request.rows, request.deadline = 1, 2**62
    requests = [request]
    cpu, wall = cpu_ns(pids), time.perf_counter_ns()
    for _ in range(count):
        executor.execute([x], requests)
    wall, cpu = time.perf_counter_ns() - wall, cpu_ns(pids) - cpu
    return Cost(wall / count / 1e3, cpu / count / 1e3)


def main() -> None:
    source = ModelSource("echo", "1", Path(), ModelPolicy(), trusted=True, model_class=Echo)
    with ExitStack() as stack:
        on_thread = PythonBackend().load(source)
        stack.callback(on_thread.close)
        in_process = ProcessModel(source, "python", 0, 0)
        stack.callback(in_process.close)
        process = in_process.executor()
        sides: dict[str, tuple[Executor, list[int]]] = {
            "thread": (on_thread.executor(), [os.getpid()]),
            "process": (process, [os.getpid(), process.pid]),
        }
        print(f"{'µs a batch':16}{'wall':>10}{'CPU':>10}")
        for label, width in SIZES.items():
            x = np.zeros((1, width), np.float32)
            costs: dict[str, list[Cost]] = {side: [] for side in sides}
            for turn in range(TURNS + 1):
                for side, (executor, pids) in sides.items():
                    measured = cost(executor, pids, x)
                    if turn:  # the first brings the memory
                        costs[side].append(measured)
            for side, measured_costs in costs.items():
                wall, cpu = (median(values) for values in zip(*measured_costs, strict=True))
                print(f"{label:>6} {side:9}{wall:10.1f}{cpu:10.1f}")


if __name__ == "__main__":
    main()
