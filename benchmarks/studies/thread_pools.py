"""Whose threads should carry out an execution: a pool for each session, one for the process, or none?

Each contender runs in a process of its own, with one or several sessions of MiniLM (1 row of 128 tokens), and meets
four loads in turn: `idle` (nothing after a run), `sparse` (5 runs a second), `single` (one caller, back to back) and
`full` (as many callers as CPUs). Callers go from session to session. With `--quota` all of it happens in a cgroup of v1
that may use so many CPUs, which takes root.

    python -m benchmarks.studies.thread_pools [--quota 1] [--models 1 3 10] [--seconds 3]
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import onnxruntime as ort

from benchmarks.models import MINILM

CPUS = len(os.sched_getaffinity(0))
CONTENDERS = ("narrow", "own", "own spinning", "own brief spin", "global", "global told not to spin", "global stopped")
SPARSE_PERIOD_S = 0.2
CGROUP = Path("/sys/fs/cgroup/cpu/guepard-benchmark")
PERIOD_US = 100_000


def session_options(contender: str) -> ort.SessionOptions:
    """`narrow`: the caller's thread alone. `own`: a pool for the session. `global`: the process's pool."""
    options = ort.SessionOptions()
    options.inter_op_num_threads = 1
    options.intra_op_num_threads = 1 if contender == "narrow" else CPUS
    options.log_severity_level = 4
    if contender in ("own", "global told not to spin"):
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if contender == "own brief spin":
        options.add_session_config_entry("session.intra_op.spin_duration_us", "50")
    if contender == "global stopped":
        options.add_session_config_entry("session.force_spinning_stop", "1")
    options.use_per_session_threads = not contender.startswith("global")
    return options


def measure(contender: str, models: int, seconds: float) -> dict[str, dict[str, float]]:
    if contender.startswith("global"):
        ort.set_global_thread_pool_sizes(CPUS, 1)
    options = session_options(contender)
    sessions = [ort.InferenceSession(MINILM.path(), options, ["CPUExecutionProvider"]) for _ in range(models)]
    inputs = {MINILM.input_name: MINILM.sample(1)}
    for session in sessions:
        session.run(None, inputs)

    def callers(number: int, pause_s: float) -> Callable[[], list[float]]:
        return lambda: drive(sessions, inputs, number, seconds, pause_s)

    return {
        "idle": observe(callers(0, 0)),
        "sparse": observe(callers(1, SPARSE_PERIOD_S)),
        "single": observe(callers(1, 0)),
        "full": observe(callers(CPUS, 0)),
    }


def drive(sessions: list[Any], inputs: Any, callers: int, seconds: float, period_s: float) -> list[float]:
    """Milliseconds of each run."""
    times: list[float] = []

    def call(first: int) -> None:
        started = time.perf_counter()
        for turn in count():
            begun = time.perf_counter()
            if begun - started > seconds:
                return
            sessions[(first + turn) % len(sessions)].run(None, inputs)
            took = time.perf_counter() - begun
            times.append(took * 1e3)
            time.sleep(max(0.0, period_s - took))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    if not callers:
        time.sleep(seconds)
    for thread in threads:
        thread.join()
    return times


def observe(load: Callable[[], list[float]]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    times = load()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "cores": cpu / wall,
        "runs/s": len(times) / wall,
        "p50 ms": median(times) if times else 0.0,
        "p99 ms": sorted(times)[len(times) * 99 // 100] if times else 0.0,
        "cpu ms": cpu * 1e3 / len(times) if times else 0.0,
        "threads": len(os.listdir("/proc/self/task")),
    }


def throttled() -> int:
    return int((CGROUP / "cpu.stat").read_text().split()[3])


def run(contender: str, models: int, seconds: float, quota: float) -> None:
    enter = ["/bin/sh", "-c", f'echo $$ > {CGROUP}/cgroup.procs && exec "$@"', "sh"] if quota else []
    command = [*enter, sys.executable, "-m", __spec__.name, "--child", contender, "--models", str(models)]
    before = throttled() if quota else 0
    command += ["--seconds", str(seconds)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for load, figures in found.items():
        print(
            f"{models:2} {contender:24} {load:8}"
            + "".join(f"  {name} {value:7.2f}" for name, value in figures.items()),
            flush=True,
        )
    if quota:
        print(f"{models:2} {contender:24} periods throttled {throttled() - before}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--quota", type=float, default=0.0)
    parser.add_argument("--contenders", nargs="+", default=CONTENDERS)
    parser.add_argument("--child")
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps(measure(chosen.child, chosen.models[0], chosen.seconds)))
        return
    if chosen.quota:
        CGROUP.mkdir(exist_ok=True)
        (CGROUP / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (CGROUP / "cpu.cfs_quota_us").write_text(str(int(chosen.quota * PERIOD_US)))
    try:
        for models in chosen.models:
            for contender in chosen.contenders:
                run(contender, models, chosen.seconds, chosen.quota)
    finally:
        if chosen.quota:
            CGROUP.rmdir()


if __name__ == "__main__":
    main()
