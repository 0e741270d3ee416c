"""CPU time per call of the files of the hot path: `python -m benchmarks.micro.run [FILE ...] [--quick]`.

`ratio` is to the yardstick of the same moment (`timing/calibration.py`); the last column is where the medians of the
processes lie around it.
"""

import argparse
import sys

from benchmarks.micro.timing.processes import time_in_processes
from benchmarks.micro.timing.subjects import subjects

ROUNDS, PROCESSES = 25, 3
QUICK_ROUNDS, QUICK_PROCESSES = 5, 1


def main() -> int:
    known = subjects()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", metavar="FILE", help=f"one of {', '.join(known)}; default all")
    parser.add_argument("--quick", action="store_true", help="one process, few rounds: does it work?")
    arguments = parser.parse_args()
    for subject in arguments.subjects:
        if subject not in known:
            parser.error(f"no micro-benchmark {subject!r}; choose from {', '.join(known)}")
    rounds, processes = (QUICK_ROUNDS, QUICK_PROCESSES) if arguments.quick else (ROUNDS, PROCESSES)
    times = time_in_processes(arguments.subjects or known, rounds, processes)
    width = max(map(len, times))
    print(f"{'case':{width}}  {'ns per call':>12}  {'ratio':>8}  from … to")
    for name, time in sorted(times.items()):
        spread = f"{time.low / time.ratio - 1:+.0%} … {time.high / time.ratio - 1:+.0%}"
        print(f"{name:{width}}  {time.ns:12,.0f}  {time.ratio:8.3f}  {spread}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
