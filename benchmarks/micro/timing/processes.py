"""Cases timed in several fresh processes, one after another.

Where a process happens to lie in memory makes a case faster or slower by some per cent for as long as it lives, which
no number of rounds shows. So a case's figure is the median of several processes, and its spread goes from the lowest
to the highest.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from statistics import median

from benchmarks.micro.timing.rounds import Time, time_cases
from benchmarks.micro.timing.subjects import open_cases

Times = dict[str, Time]


def time_in_processes(chosen: Sequence[str], rounds: int, processes: int) -> Times:
    """Raises: RuntimeError with what a process said that failed."""
    runs = [_time_in_process(chosen, rounds) for _ in range(processes)]
    return {name: _joined([run[name] for run in runs]) for name in runs[0]}


def _joined(times: Sequence[Time]) -> Time:
    ratios = [time.ratio for time in times]
    return Time(median(time.ns for time in times), median(ratios), min(ratios), max(ratios))


def _time_in_process(chosen: Sequence[str], rounds: int) -> Times:
    command = [sys.executable, "-m", "benchmarks.micro.timing.processes", str(rounds), *chosen]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        raise RuntimeError(f"timing {', '.join(chosen)} failed:\n{child.stderr[-4_000:]}")
    return {name: Time(*values) for name, values in json.loads(child.stdout).items()}


if __name__ == "__main__":
    logging.getLogger("guepard").setLevel(logging.WARNING)
    with open_cases(sys.argv[2:]) as cases:
        print(json.dumps(time_cases(cases, int(sys.argv[1]))))
