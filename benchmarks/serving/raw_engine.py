"""The raw engine in a process of its own with no server around it: the limit for models that compute.

Run by as many Python threads as there are cores, each execution on one: the fastest way to drive a model of this size
under full load. Run as `python -m benchmarks.serving.raw_engine MODEL`; prints one number.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import onnxruntime
from numpy.testing import assert_allclose

from benchmarks.models import MODELS, ReferenceModel
from benchmarks.serving.engines import ENGINES
from benchmarks.serving.payload import Payload, ask

WARM_UP_RUNS = 3


def open_session(model: ReferenceModel) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.path(), options, providers=["CPUExecutionProvider"])


def inferences_per_second(
    model: ReferenceModel, batch_size: int, seconds: float, threads: int, engine: str, precision: str
) -> float:
    make = ENGINES[engine](model, threads, precision)
    rows = model.sample(batch_size)
    gate = threading.Barrier(threads)

    def runs_per_second(_: int) -> float:
        run = make()
        for _ in range(WARM_UP_RUNS):
            run(rows)
        gate.wait()
        started, elapsed, runs = time.perf_counter(), 0.0, 0
        while elapsed < seconds:
            run(rows)
            elapsed, runs = time.perf_counter() - started, runs + 1
        return runs / elapsed

    # Each thread tells its own rate: over a common time, the one that ends first would count as idle.
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(runs_per_second, range(threads))) * batch_size


def check_answer(
    model: ReferenceModel, port: int, payload: Payload, engine: str = "onnxruntime", precision: str = "f32"
) -> None:
    """Ask a server for the model's first sample row and compare with the engine.

    Raises: AssertionError.
    """
    expected = ENGINES[engine](model, 1, precision)()(model.sample(1))
    # In half precision sums differ with the order in which their parts are added, which follows the threads.
    rtol, atol = (1e-3, 1e-5) if precision == "f32" else (0.05, 0.05)
    assert_allclose(ask(port, payload), expected.ravel(), rtol=rtol, atol=atol)


def measure(
    model: ReferenceModel,
    batch_size: int,
    seconds: float,
    threads: int | None = None,
    engine: str = "onnxruntime",
    precision: str = "f32",
) -> float:
    """Inferences per second, measured in a fresh process; by one thread for each core, if nothing else is said."""
    command = [sys.executable, "-m", "benchmarks.serving.raw_engine", model.name]
    arguments = ["--batch-size", str(batch_size), "--seconds", str(seconds)]
    arguments += ["--engine", engine, "--precision", precision]
    arguments += [] if threads is None else ["--threads", str(threads)]
    return float(subprocess.run([*command, *arguments], check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--engine", choices=ENGINES, default="onnxruntime")
    parser.add_argument("--precision", choices=("f32", "bf16", "f16"), default="f32")
    chosen = parser.parse_args()
    print(
        inferences_per_second(
            MODELS[chosen.model], chosen.batch_size, chosen.seconds, chosen.threads, chosen.engine, chosen.precision
        )
    )
