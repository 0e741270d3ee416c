"""What does one more process cost that serves the same model? 113 MB of weights, three processes.

Each process loads the model through the backend, runs one row some times and tells what it has in memory and no other
process has, how long the load took, and the fastest run. Thrice: every process with weights of its own, with a copy
that has yet to be made, and with the copy of before. No server is started: its processes would load in the same way.
"""

import json
import multiprocessing
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.models import DENSE_STACK
from benchmarks.serving.effort import Effort
from benchmarks.serving.process import observe_quietly
from benchmarks.serving.report import Answer, Figure, at_most

PROCESSES = 3
RUNS = 20
TARGET_MB = at_most(45)
WAYS = {"own weights": "none", "shared, first load": "cache", "shared, next load": "cache"}


def measure(effort: Effort) -> Answer:
    samples: list[dict[str, Any]] = []
    for turn in range(effort.rounds):
        print(f"shared_weights: round {turn + 1}", file=sys.stderr, flush=True)
        with TemporaryDirectory(prefix="bench-weights-") as folder:
            for way, cache in WAYS.items():
                command = [sys.executable, "-m", __name__, str(DENSE_STACK.path())]
                command.append(cache if cache == "none" else str(Path(folder, cache)))
                output, seen = observe_quietly(lambda command=command: _output(command), attempts=1)  # type: ignore[misc]
                samples += [{"side": way, **json.loads(line), **seen.as_dict()} for line in output.splitlines()]
    figures = []
    for way in WAYS:
        mine = [sample for sample in samples if sample["side"] == way]
        private = max(sample["private_bytes"] for sample in mine) / 1e6
        figures += [
            Figure(f"{way}, private memory of a process", private, "MB", None if way == "own weights" else TARGET_MB),
            Figure(f"{way}, load of {PROCESSES} at once", median(sample["load_s"] for sample in mine), "s"),
            Figure(f"{way}, one row", median(sample["run_s"] for sample in mine) * 1e3, "ms"),
        ]
    return Answer("shared_weights", figures, samples)


def _output(command: list[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def load(model: str, cache: str, barrier: Any, turn: Any, told: Any) -> None:
    from guepard.backends.base import ModelSource
    from guepard.backends.onnxruntime import OnnxRuntimeBackend
    from guepard.core.model_config import InstanceGroup, ModelPolicy
    from guepard.limits.heap import trim_heap

    policy = ModelPolicy(instance_group=InstanceGroup(count=PROCESSES, execution="process"))
    folder = None if cache == "none" else Path(cache)
    source = ModelSource("m", "1", Path(model), policy, cache=folder, memory_bytes=1 << 40)
    barrier.wait()
    started = time.perf_counter()
    loaded = OnnxRuntimeBackend().load(source)
    trim_heap()  # as the engine does after a load
    load_s = time.perf_counter() - started
    executor, row = loaded.executor(), DENSE_STACK.sample(1)
    barrier.wait()
    with turn:
        durations = []
        for _ in range(RUNS):
            started = time.perf_counter()
            executor.execute([row], [])
            durations.append(time.perf_counter() - started)
    barrier.wait()
    rollup = Path("/proc/self/smaps_rollup").read_text()
    private = sum(int(size) for size in re.findall(r"^Private_\w+:\s+(\d+) kB$", rollup, re.MULTILINE)) * 1_024
    told.put({"load_s": load_s, "private_bytes": private, "run_s": min(durations)})
    barrier.wait()


def main() -> None:
    context = multiprocessing.get_context("spawn")
    barrier, turn, told = context.Barrier(PROCESSES), context.Lock(), context.SimpleQueue()
    arguments = (sys.argv[1], sys.argv[2], barrier, turn, told)
    processes = [context.Process(target=load, args=arguments) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    for _ in processes:
        print(json.dumps(told.get()))


if __name__ == "__main__":
    main()
