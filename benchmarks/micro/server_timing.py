"""`server/server_timing.py`."""

from benchmarks.micro.stage.requests import executed, stamps
from benchmarks.micro.timing.case import Case
from guepard.server.http.response_writer import JSON_TYPE
from guepard.server.server_timing import with_server_timing


def cases() -> list[Case]:
    alone, together = executed(), [executed() for _ in range(8)]

    def lone() -> None:
        alone.stamps = stamps()
        with_server_timing(JSON_TYPE, alone)

    def batch() -> None:
        shared = stamps()
        for request in together:
            request.stamps = shared
            with_server_timing(JSON_TYPE, request)

    return [Case("a lone request", lone), Case("8 of one batch", batch, 8)]
