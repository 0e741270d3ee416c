"""`telemetry/statistics.py`: from one fold to the next."""

from benchmarks.micro.stage.requests import executed
from benchmarks.micro.timing.case import Case
from guepard.core.reasons import ReleaseReason
from guepard.telemetry.statistics import ModelStatistics

FOLD = 4_096
"""Integers that wait before they are folded; seven are of the execution, two of each request."""


def _case(size: int) -> Case:
    statistics = ModelStatistics("mlp", "1")
    requests = [executed() for _ in range(size)]
    stamps = requests[0].stamps
    assert stamps is not None
    executions = -(-FOLD // (7 + 2 * size))

    def until_folded() -> None:
        for _ in range(executions):
            statistics.record_execution(requests, size, stamps, 80_000, ReleaseReason.IDLE)

    return Case(f"executions of {size}, per request", until_folded, executions * size)


def cases() -> list[Case]:
    return [_case(size) for size in (1, 8, 64)]
