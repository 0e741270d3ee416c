"""Has a file of the hot path become slower? `python -m benchmarks.micro.check [--update]`.

Compares each case's ratio to the yardstick with the one in `benchmarks/baselines/micro.json`. What is beyond its limit
(`timing/baseline.py`) is timed again, alone; what is beyond it in every process then is slower, and the exit code 1.
`--update` writes the baselines instead: on a commit that is known to be fast, on the machine that checks.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence

from benchmarks.micro.run import PROCESSES, ROUNDS
from benchmarks.micro.timing import baseline
from benchmarks.micro.timing.baseline import Baseline, Baselines
from benchmarks.micro.timing.processes import Times, time_in_processes
from benchmarks.micro.timing.subjects import subjects

UPDATE_PROCESSES = 5
NO_BASELINE = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="keep what is measured now as the baselines")
    if parser.parse_args().update:
        baseline.update(time_in_processes(subjects(), ROUNDS, UPDATE_PROCESSES))
        print(f"written to {baseline.PATH} for {baseline.key()}")
        return 0
    known = baseline.read()
    if known is None:
        print(f"there are no baselines for {baseline.key()}: on a commit that is known to be fast, run")
        print("  python -m benchmarks.micro.check --update")
        return NO_BASELINE
    return check(known)


def check(known: Baselines) -> int:
    for difference in baseline.differences(known.where, baseline.here()):
        print(f"not as it was: {difference}")
    times = time_in_processes(subjects(), ROUNDS, PROCESSES)
    suspects = beyond(times, known.cases)
    again = time_in_processes(suspects, ROUNDS, PROCESSES) if suspects else {}
    slower = [name for name in suspects if again[name].low > known.cases[name].limit]
    for name in suspects:
        if name not in slower:
            print(f"{name}: {times[name].ratio:.3f}, but from {again[name].low:.3f} on when timed alone: noise")
    for name in sorted(times.keys() - known.cases.keys()):
        print(f"{name}: new, without a baseline")
    for name in sorted(known.cases.keys() - times.keys()):
        print(f"{name}: gone")
    if not slower:
        print(f"none of {len(times)} cases is slower than at {known.where['commit']}")
        return 0
    print(table(slower, again, known.cases))
    return 1


def beyond(times: Times, known: Mapping[str, Baseline]) -> list[str]:
    """Cases that take more than their baselines let them."""
    return [name for name, time in times.items() if name in known and time.ratio > known[name].limit]


def table(slower: Sequence[str], times: Times, known: Mapping[str, Baseline]) -> str:
    width = max(map(len, slower))
    lines = [f"{'slower':{width}}  {'before':>8}  {'limit':>8}  {'now':>8}  change"]
    for name in slower:
        before, now = known[name], times[name].ratio
        change = f"{now / before.ratio - 1:+.0%}"
        lines.append(f"{name:{width}}  {before.ratio:8.3f}  {before.limit:8.3f}  {now:8.3f}  {change}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
