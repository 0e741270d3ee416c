"""What do OpenMP's threads cost between the operators of PyTorch, and between requests?

A stack of dense layers runs on two threads, back to back and with pauses, in a process for each wait policy. What
counts is CPU time: other executions would have had it.

    python -m benchmarks.studies.openmp_waits [--rounds 3]
"""

import argparse
import os
import subprocess
import sys
import time

_PAUSE_S = 0.005
_PAUSED_RUNS, _RUNS = 60, 300


def measure() -> str:
    """In this process: milliseconds of CPU a run, with pauses and without."""
    import torch

    torch.set_num_threads(2)
    model = torch.nn.Sequential(*[torch.nn.Linear(384, 384) for _ in range(6)]).eval()
    rows = torch.randn(64, 384)
    with torch.inference_mode():
        for _ in range(20):
            model(rows)
        started = time.process_time()
        for _ in range(_PAUSED_RUNS):
            model(rows)
            time.sleep(_PAUSE_S)
        paused = (time.process_time() - started) / _PAUSED_RUNS
        started = time.process_time()
        for _ in range(_RUNS):
            model(rows)
        busy = (time.process_time() - started) / _RUNS
    return f"with pauses {paused * 1e3:6.2f} ms, back to back {busy * 1e3:6.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        print(measure())
        return
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    command = [sys.executable, "-m", "benchmarks.studies.openmp_waits", "--here"]
    for _ in range(arguments.rounds):
        for policy in ({}, {"OMP_WAIT_POLICY": "PASSIVE"}):
            run = subprocess.run(command, env=environment | policy, capture_output=True, text=True, check=True)
            print(f"{policy.get('OMP_WAIT_POLICY', 'default'):8} CPU a run: {run.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
