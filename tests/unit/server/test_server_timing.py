"""The line as clients parse it, and what is written once for a whole batch."""

import re

import pytest

from guepard.core.phases import PHASES, BatchStamps
from guepard.core.request import InferenceRequest
from guepard.core.response import NOBODY
from guepard.server.server_timing import with_server_timing

MICROSECOND = 1_000
HEADERS = b"content-type: application/json\r\n"


def executed(*durations_us: int, stamps: BatchStamps | None = None) -> InferenceRequest:
    """A request whose phases from decode to output took so many microseconds."""
    decode, queue, gathered, compute, output = (duration * MICROSECOND for duration in durations_us)
    request = InferenceRequest((), NOBODY, 5)
    request.queue_start = 5 + decode
    if stamps is None:
        stamps = BatchStamps()
        stamps.compute_start = request.queue_start + queue
        stamps.compute_input_end = stamps.compute_start + gathered
        stamps.compute_output_start = stamps.compute_input_end + compute
        stamps.compute_end = stamps.compute_output_start + output
    request.stamps = stamps
    return request


def test_the_line_names_the_phases_that_are_over_in_milliseconds() -> None:
    line = with_server_timing(HEADERS, executed(12, 3, 0, 1_234, 7))
    assert line == HEADERS + (
        b"server-timing: decode;dur=0.012, queue;dur=0.003, input;dur=0.000, compute;dur=1.234, output;dur=0.007\r\n"
    )
    assert re.findall(rb"(\w+);dur", line) == [phase.encode() for phase in PHASES[:-1]]


@pytest.mark.parametrize("duration_us", [0, 1, 999, 1_000, 4_095, 4_096, 59_999_999, 86_400_000_000])
def test_any_duration_is_exact_and_the_same_the_second_time(duration_us: int) -> None:
    milliseconds = f"{duration_us // 1_000}.{duration_us % 1_000:03}".encode()
    for _ in range(2):
        line = with_server_timing(b"", executed(*[duration_us] * 5))
        assert re.findall(rb"dur=([0-9.]+)", line) == [milliseconds] * 5


def test_requests_of_one_batch_share_its_part_and_keep_their_own() -> None:
    first = executed(10, 50, 1, 2, 3)
    second = executed(30, 30, 1, 2, 3, stamps=first.stamps)
    assert with_server_timing(b"", first).startswith(
        b"server-timing: decode;dur=0.010, queue;dur=0.050, input;dur=0.001"
    )
    assert with_server_timing(b"", second).startswith(
        b"server-timing: decode;dur=0.030, queue;dur=0.030, input;dur=0.001"
    )
    assert first.stamps is not None
    assert first.stamps.server_timing == b", input;dur=0.001, compute;dur=0.002, output;dur=0.003\r\n"


def test_what_nothing_was_executed_for_has_no_line() -> None:
    assert with_server_timing(HEADERS, InferenceRequest((), NOBODY, 0)) == HEADERS
