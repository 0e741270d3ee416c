"""Which requests of a served model are traced, and what their records say."""

import logging
from typing import Any

import pytest

from guepard.core.phases import STAMPS
from guepard.core.request import NO_PARAMETERS
from guepard.telemetry.logging import TRACE_LOGGER
from guepard.telemetry.request_trace import UNBOUNDED, TracePlan
from tests.unit.engine.fake_executors import fail_negative
from tests.unit.engine.stage import Stage


@pytest.fixture(autouse=True)
def every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, TRACE_LOGGER)


def traced(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record for record in caplog.records if record.name == TRACE_LOGGER]


def traced_ids(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.inference_id for record in traced(caplog)]


def inline(plan: TracePlan, **config: Any) -> Stage:
    stage = Stage(fail_negative, execution="inline", **config)
    stage.trace.begin(plan)
    return stage


def ask(stage: Stage, count: int) -> None:
    for number in range(1, count + 1):
        stage.send(1.0, id=str(number))
        stage.clock.turn()


def test_off_nothing_is_written(caplog: pytest.LogCaptureFixture) -> None:
    ask(inline(TracePlan(is_on=False, rate=1, limit=UNBOUNDED)), 3)
    assert traced(caplog) == []


def test_every_rate_th_request_until_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    stage = inline(TracePlan(is_on=True, rate=3, limit=2))
    ask(stage, 20)
    assert traced_ids(caplog) == ["3", "6"]
    assert not stage.trace.is_on
    stage.trace.begin(TracePlan(is_on=True, rate=1, limit=1))
    ask(stage, 2)
    assert traced_ids(caplog) == ["3", "6", "1"]


def test_a_rate_is_counted_within_batches_too(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.trace.begin(TracePlan(is_on=True, rate=2, limit=3))
    stage.send(1.0, id="first")
    stage.clock.turn()
    for number in range(1, 9):  # these wait for the instance, and leave together
        stage.send(1.0, id=str(number))
    stage.deliver()
    stage.deliver()
    assert len(stage.executor.runs[1]) == 8
    assert traced_ids(caplog) == ["1", "3", "5"]


def test_a_record_of_a_success(caplog: pytest.LogCaptureFixture) -> None:
    stage = inline(TracePlan(is_on=True, rate=1, limit=UNBOUNDED))
    request = stage.send(1.0, id="an id")
    stage.clock.turn()
    (record,) = traced(caplog)
    assert (record.getMessage(), record.model, record.version) == ("trace", "m", "1")
    assert (record.inference_id, record.outcome) == ("an id", "success")
    assert not hasattr(record, "failure")
    stamps = [getattr(record, stamp) for stamp in STAMPS]
    assert stamps[0] == request.request_start
    assert request.stamps is not None
    assert stamps[2] == request.stamps.compute_start
    assert stamps[2:] == sorted(stamps[2:])


def test_a_request_without_an_id_has_none(caplog: pytest.LogCaptureFixture) -> None:
    stage = inline(TracePlan(is_on=True, rate=1, limit=UNBOUNDED))
    stage.send(1.0, parameters=NO_PARAMETERS)
    stage.clock.turn()
    (record,) = traced(caplog)
    assert not hasattr(record, "inference_id")


def test_a_failure_has_the_stamps_that_it_reached(caplog: pytest.LogCaptureFixture) -> None:
    stage = inline(TracePlan(is_on=True, rate=1, limit=UNBOUNDED))
    stage.send(-1.0, id="fails")
    stage.clock.turn()
    stage.send(1.0, id="refused", requested_outputs=("nope",))
    fails, refused = traced(caplog)
    assert (fails.outcome, fails.failure) == ("failure", "BACKEND")
    reached = {"request_start", "queue_start", "compute_start", "compute_input_end", "compute_end", "request_end"}
    assert {stamp for stamp in STAMPS if hasattr(fails, stamp)} == reached
    assert (refused.outcome, refused.failure) == ("failure", "INVALID")
    assert {stamp for stamp in STAMPS if hasattr(refused, stamp)} == {"request_start", "request_end"}


def test_a_client_that_left_is_traced_once(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.trace.begin(TracePlan(is_on=True, rate=1, limit=UNBOUNDED))
    request = stage.send(1.0)
    stage.clock.turn()
    stage.served.cancel(request)
    stage.deliver()
    (record,) = traced(caplog)
    assert (record.outcome, record.failure) == ("failure", "CANCELED")


def test_a_request_larger_than_a_batch_is_one_request(caplog: pytest.LogCaptureFixture) -> None:
    stage = inline(TracePlan(is_on=True, rate=1, limit=UNBOUNDED))
    stage.send(*[1.0] * 20, id="large")
    stage.clock.turn()
    assert stage.successes == 1
    assert len(traced(caplog)) == 1
