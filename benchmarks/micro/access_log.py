"""`telemetry/access_log.py`: a request that is not logged, and one that is, as far as the record."""

from benchmarks.micro.stage.requests import executed
from benchmarks.micro.timing.case import Case
from guepard.telemetry.access_log import AccessLog, phase_durations


def cases() -> list[Case]:
    log, done = AccessLog(0.01, lambda: 0), executed()

    def record() -> None:
        log.record(
            request_id="0123456789abcdef",
            method="POST",
            path="/v2/models/mlp/infer",
            status=200,
            duration_ns=40_000,
            bytes_in=300,
            bytes_out=97,
            model="mlp",
            phases_ns=phase_durations(done, 80_000),
        )

    return [Case("is this one logged?", lambda: log.wants(1_000)), Case("a record", record)]
