"""`telemetry/histogram.py`: from one fold to the next."""

from benchmarks.micro.timing.case import Case
from guepard.telemetry.histogram import LatencyHistogram

FOLD = 1_024


def cases() -> list[Case]:
    histogram = LatencyHistogram()

    def until_folded() -> None:
        for duration in range(FOLD):
            histogram.append(20_000 + duration)

    return [Case("an observation", until_folded, FOLD)]
