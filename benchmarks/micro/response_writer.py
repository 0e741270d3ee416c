"""`server/http/response_writer.py`."""

from benchmarks.micro.timing.case import Case
from guepard.core.errors import QueueFull
from guepard.server.http.response_writer import JSON_TYPE, LENGTH_LINES, STATUS_LINES, DateHeader, error_headers


def cases() -> list[Case]:
    date, error = DateHeader(), QueueFull("the queue is full", retry_after_ms=40)
    return [
        Case("the head of an answer", lambda: b"".join((STATUS_LINES[200], date.line, JSON_TYPE, LENGTH_LINES[97]))),
        Case("the headers of an error", lambda: error_headers(error)),
    ]
