"""`guepard serve` that counts nothing: `python -m benchmarks.serving.unmetered_server --port PORT MODEL ...`.

The recorders of successful requests are replaced before anything is built. With `--metered` they stay, so that both
sides of a comparison start in one way.
"""

import argparse
import sys
from typing import Any

from benchmarks.serving.contender import free_ports
from guepard.cli import main
from guepard.telemetry.histogram import LatencyHistogram
from guepard.telemetry.statistics import ModelStatistics

RECORDERS = ((LatencyHistogram, "append"), (ModelStatistics, "record_execution"))


def nothing(*_: Any) -> None:
    pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--metered", action="store_true")
    arguments = parser.parse_args()
    if not arguments.metered:
        for owner, recorder in RECORDERS:
            setattr(owner, recorder, nothing)
    ports = ["--http-port", str(arguments.port), "--metrics-port", str(free_ports(1)[0]), "--grpc-port", "none"]
    sys.exit(main.main(["serve", *arguments.models, *ports]))
