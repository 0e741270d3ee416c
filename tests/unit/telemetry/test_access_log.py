"""Which requests are logged, on a clock that is turned by hand."""

import logging
from collections.abc import Iterator

import pytest

from guepard.core.errors import ErrorCode
from guepard.telemetry.access_log import PATH_LIMIT, AccessLog

SECOND = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 7 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record)


@pytest.fixture
def access_records() -> Iterator[list[logging.LogRecord]]:
    records = Records()
    logger = logging.getLogger("guepard.access")
    level = logger.level
    logger.addHandler(records)
    logger.setLevel(logging.INFO)
    yield records.seen
    logger.setLevel(level)
    logger.removeHandler(records)


def wanted(log: AccessLog, clock: Clock, count: int) -> int:
    """How many of `count` successes, spread over the next second, are logged."""
    chosen = 0
    start = clock.now
    for n in range(count):
        clock.now = start + n * SECOND // count
        chosen += log.wants(clock.now)
    clock.now = start + SECOND
    return chosen


def fail(log: AccessLog, status: int = 500) -> None:
    log.record(
        request_id="r", method="POST", path="/v2", status=status, duration_ns=1_000, bytes_in=0, bytes_out=0,
        error_code=ErrorCode.INTERNAL, error_message="broken",
    )  # fmt: skip


def test_all_successes_are_logged_while_traffic_is_light(clock: Clock) -> None:
    log = AccessLog(0.01, clock)
    assert [wanted(log, clock, 100) for _ in range(3)] == [100, 100, 100]


def test_a_burst_is_logged_up_to_the_limit_then_sampled(clock: Clock) -> None:
    log = AccessLog(0.01, clock)
    assert wanted(log, clock, 1_100) == 100 + 10


def test_heavy_traffic_is_sampled_and_light_traffic_logged_again(clock: Clock) -> None:
    log = AccessLog(0.01, clock)
    wanted(log, clock, 1_000)
    assert [wanted(log, clock, 1_000) for _ in range(5)] == [10] * 5
    assert wanted(log, clock, 50) <= 1
    assert wanted(log, clock, 50) == 50


def test_a_quiet_second_makes_traffic_light(clock: Clock) -> None:
    log = AccessLog(0.01, clock)
    wanted(log, clock, 1_000)
    clock.now += 2 * SECOND
    assert wanted(log, clock, 50) == 50


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 0), (0.003, 30), (1 / 3, 3_333), (0.5, 5_000), (1.0, 10_000)])
def test_the_share_is_counted_not_drawn(clock: Clock, rate: float, expected: int) -> None:
    log = AccessLog(rate, clock)
    wanted(log, clock, 1_000_000 // 100)
    assert abs(wanted(log, clock, 10_000) - expected) <= 1


def test_an_error_storm_is_bounded_and_then_summed_up(clock: Clock, access_records: list[logging.LogRecord]) -> None:
    log = AccessLog(0.01, clock)
    for _ in range(5_000):
        fail(log)
    assert len(access_records) == 100
    clock.now += SECOND
    fail(log)
    summary, after = access_records[100:]
    assert summary.getMessage().startswith("4900 failed requests are missing here")
    assert vars(summary)["left_out"] == 4_900
    assert after.getMessage() == "request"


def test_a_success_of_the_next_second_sums_up_too_and_closing_does(
    clock: Clock, access_records: list[logging.LogRecord]
) -> None:
    log = AccessLog(0.01, clock)
    for _ in range(101):
        fail(log)
    clock.now += SECOND
    log.wants(clock.now)
    assert [vars(record).get("left_out") for record in access_records[100:]] == [1]
    for _ in range(103):
        fail(log)
    log.close()
    log.close()
    assert [vars(record).get("left_out") for record in access_records[-1:]] == [3]
    assert len(access_records) == 100 + 1 + 100 + 1


def test_what_was_left_out_is_told_though_nothing_follows(
    clock: Clock, access_records: list[logging.LogRecord]
) -> None:
    log = AccessLog(0.01, clock)
    for _ in range(150):
        fail(log)
    log.tick(clock.now)
    assert len(access_records) == 100, "the second is not over"
    log.tick(clock.now + SECOND)
    log.tick(clock.now + 2 * SECOND)
    assert [vars(record)["left_out"] for record in access_records[100:]] == [50]


def test_errors_are_logged_though_successes_are_sampled(clock: Clock, access_records: list[logging.LogRecord]) -> None:
    log = AccessLog(0.0, clock)
    for _ in range(2):
        wanted(log, clock, 1_000)
    for _ in range(20):
        fail(log)
    assert len(access_records) == 20


def test_the_fields_of_a_line(clock: Clock, access_records: list[logging.LogRecord]) -> None:
    log = AccessLog(1.0, clock)
    log.record(
        request_id="id-1",
        method="POST",
        path="/" + "x" * 10_000,
        status=200,
        duration_ns=1_234_567,
        bytes_in=10,
        bytes_out=20,
        model="m",
        version="1",
        phases_ns={"queue": 250_000, "compute": 1_000_400},
    )
    (record,) = access_records
    fields = vars(record)
    assert fields["path"] == "/" + "x" * (PATH_LIMIT - 1) + "…"
    assert (fields["request_id"], fields["method"], fields["status"]) == ("id-1", "POST", 200)
    assert (fields["duration_ms"], fields["bytes_in"], fields["bytes_out"]) == (1.235, 10, 20)
    assert (fields["model"], fields["version"]) == ("m", "1")
    assert fields["phases_ms"] == {"queue": 0.25, "compute": 1.0}
    assert "error_code" not in fields
    assert record.levelno == logging.INFO


@pytest.mark.parametrize(("status", "level"), [(404, logging.INFO), (429, logging.INFO), (500, logging.WARNING)])
def test_an_error_says_why(clock: Clock, access_records: list[logging.LogRecord], status: int, level: int) -> None:
    fail(AccessLog(0.01, clock), status)
    (record,) = access_records
    assert (vars(record)["error_code"], vars(record)["error_message"]) == ("internal", "broken")
    assert record.levelno == level
