"""Does an asynchronous request of OpenVINO cost less than a synchronous one on a thread of ours?

*Synchronous*: the event loop hands a batch to the instance's thread through a queue, the thread runs it, and posts the
answer back, as the server does. *Asynchronous*: the loop itself sets the input and starts the request, a thread of
OpenVINO's runs it, and its callback posts to the loop. Both take turns under a closed loop with one and with two
batches at once; of the turns the median is told. CPU time is what strangers on the machine stretch less.

    python -m benchmarks.studies.openvino_requests [--turns 5]
"""

import argparse
import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from queue import SimpleQueue
from statistics import median
from typing import Any, NamedTuple

import openvino

from benchmarks.models import DENSE_STACK, MINILM, MLP, Array, ReferenceModel

STREAMS = 2
PROPERTIES = {
    "INFERENCE_PRECISION_HINT": "f32",
    "NUM_STREAMS": STREAMS,
    "INFERENCE_NUM_THREADS": STREAMS,
    "ENABLE_CPU_PINNING": False,
}
RUNS = {MLP: 4_000, DENSE_STACK: 200, MINILM: 60}

Done = Callable[[Array], object]


class Instance(ABC):
    """One request of a compiled model, used for one batch at a time."""

    def __init__(self, compiled: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._request = compiled.create_infer_request()

    @abstractmethod
    def start(self, rows: Array, done: Done) -> None:
        """`done` is called on the loop with the answer."""

    @abstractmethod
    def stop(self) -> None: ...

    def _set_input(self, rows: Array) -> None:
        self._request.set_input_tensor(0, openvino.Tensor(rows, shared_memory=True))

    def _answer(self) -> Array:
        answer: Array = self._request.get_output_tensor(0).data.copy()
        return answer


class Synchronous(Instance):
    def __init__(self, compiled: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(compiled, loop)
        self._jobs: SimpleQueue[tuple[Array, Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def start(self, rows: Array, done: Done) -> None:
        self._jobs.put((rows, done))

    def stop(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            rows, done = job
            self._set_input(rows)
            self._request.infer(share_outputs=True)
            self._loop.call_soon_threadsafe(done, self._answer())


class Asynchronous(Instance):
    def __init__(self, compiled: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(compiled, loop)
        self._done: Done | None = None
        self._request.set_callback(self._ended, None)

    def start(self, rows: Array, done: Done) -> None:
        self._done = done
        self._set_input(rows)
        self._request.start_async()

    def stop(self) -> None:
        self._request.wait()

    def _ended(self, _: object) -> None:
        self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._request.wait()
        assert self._done is not None
        self._done(self._answer())


class Turn(NamedTuple):
    """Microseconds for each batch."""

    wall: float
    cpu: float
    p50: float


async def drive(kind: type[Instance], compiled: Any, rows: Array, runs: int, at_once: int) -> Turn:
    loop = asyncio.get_running_loop()
    instances = [kind(compiled, loop) for _ in range(at_once)]
    for instance in instances:
        ready: asyncio.Future[Array] = loop.create_future()
        instance.start(rows, ready.set_result)
        await ready
    finished: asyncio.Future[None] = loop.create_future()
    begun, latencies = 0, list[float]()

    def again(instance: Instance) -> None:
        nonlocal begun
        if begun == runs:
            if len(latencies) == runs:
                finished.set_result(None)
            return
        begun += 1
        started = time.perf_counter()

        def done(_: Array) -> None:
            latencies.append(time.perf_counter() - started)
            again(instance)

        instance.start(rows, done)

    cpu, wall = time.process_time(), time.perf_counter()
    for instance in instances:
        again(instance)
    await finished
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    for instance in instances:
        instance.stop()
    return Turn(wall / runs * 1e6, cpu / runs * 1e6, median(latencies) * 1e6)


def study(model: ReferenceModel, turns: int) -> None:
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.path()), "CPU", PROPERTIES)
    rows = model.sample(1)
    for at_once in (1, STREAMS):
        found: dict[type[Instance], list[Turn]] = {Synchronous: [], Asynchronous: []}
        for _ in range(turns):
            for kind, each in found.items():
                each.append(asyncio.run(drive(kind, compiled, rows, RUNS[model], at_once)))
        for kind, each in found.items():
            told = ", ".join(f"{name} {median(getattr(turn, name) for turn in each):9.1f} us" for name in Turn._fields)
            print(f"{model.name:12} {at_once} at once, {kind.__name__:12} {told}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    for reference in RUNS:
        study(reference, arguments.turns)
