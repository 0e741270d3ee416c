"""Loads a model in several processes at once and tells what each then has to itself: `python -m ... MODEL CACHE COUNT`.

Prints one JSON line a process: seconds of the load, private bytes, the sum of the outputs for an input of ones.
"""

import json
import multiprocessing
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def load(model: str, cache: str, barrier: Any, told: Any) -> None:
    from guepard.backends.base import ModelSource
    from guepard.backends.onnxruntime import OnnxRuntimeBackend
    from guepard.core.model_config import InstanceGroup, ModelPolicy
    from guepard.limits.heap import trim_heap

    policy = ModelPolicy(instance_group=InstanceGroup(count=2, execution="process"))
    folder = None if cache == "none" else Path(cache)
    source = ModelSource("m", "1", Path(model), policy, cache=folder, cpus=2, memory_bytes=1 << 40)
    barrier.wait()
    started = time.perf_counter()
    loaded = OnnxRuntimeBackend().load(source)
    trim_heap()  # as the engine does after a load
    took = time.perf_counter() - started
    dims = loaded.description.inputs[0].dims
    (output,) = loaded.executor().execute([np.ones((1, *dims), np.float32)], [])
    barrier.wait()
    told.put({"load_s": took, "private_bytes": private_bytes(), "sum": float(output.astype(np.float64).sum())})
    barrier.wait()


def private_bytes() -> int:
    """What this process has in memory and no other. A page of a file that only it has mapped counts as well."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(size) for size in re.findall(r"^Private_\w+:\s+(\d+) kB$", text, re.MULTILINE)) * 1_024


def main() -> None:
    model, cache, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    context = multiprocessing.get_context("spawn")
    barrier, told = context.Barrier(count), context.SimpleQueue()
    processes = [context.Process(target=load, args=(model, cache, barrier, told)) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    for _ in processes:
        print(json.dumps(told.get()))


if __name__ == "__main__":
    main()
