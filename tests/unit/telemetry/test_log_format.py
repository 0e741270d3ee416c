"""Whatever is logged, a record stays one record."""

import json
import logging
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guepard.telemetry.log_format import MESSAGE_LIMIT, ConsoleFormatter, JsonFormatter

# Every character, lone surrogates too: what a client sends need not be text.
anything = st.text(st.characters(exclude_categories=()), max_size=40)

INJECTION = "x\r\n2030-01-01T00:00:00.000Z error guepard forged\x1b[2J\x00\x85\u2028\u202e"


class Circular:
    """A value that no JSON encoder knows."""

    def __str__(self) -> str:
        return "circular\nvalue"


def record(message: object, *args: object, error: BaseException | None = None, **fields: Any) -> logging.LogRecord:
    exc_info = (type(error), error, error.__traceback__) if error else None
    made = logging.getLogger("guepard.test").makeRecord(
        "guepard.test", logging.INFO, __file__, 1, message, args, exc_info, extra=fields
    )
    made.created = 1_700_000_000.0625
    return made


def raised(message: str) -> BaseException:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def test_json_holds_time_level_logger_message_and_fields() -> None:
    line = JsonFormatter().format(record("loaded %s", "m", model="m", rows=3, phases_ms={"queue": 0.25}))
    document = json.loads(line)
    assert list(document)[:4] == ["ts", "level", "logger", "message"]
    assert document == {
        "ts": "2023-11-14T22:13:20.062Z",
        "level": "info",
        "logger": "guepard.test",
        "message": "loaded m",
        "model": "m",
        "rows": 3,
        "phases_ms": {"queue": 0.25},
    }


def test_console_puts_columns_first_and_fields_last() -> None:
    line = ConsoleFormatter(is_coloured=False).format(
        record("loaded %s", "m", model="m", took_ms=1.25, reason='a "b" c', phases_ms={"queue": 0.5})
    )
    assert line == (
        "2023-11-14T22:13:20.062Z info     guepard.test     loaded m"
        r' model=m took_ms=1.250 reason="a \"b\" c" phases_ms=queue:0.500'
    )


def test_colour_is_only_where_it_was_asked_for() -> None:
    assert "\x1b[32m" in ConsoleFormatter(is_coloured=True).format(record("loaded"))
    assert "\x1b" not in ConsoleFormatter(is_coloured=False).format(record("loaded"))


@settings(deadline=None)
@given(message=anything, field=anything)
def test_one_record_is_one_printable_line(message: str, field: str) -> None:
    made = record("%s", message, path=field)
    console = ConsoleFormatter(is_coloured=False).format(made)
    assert console.isprintable()
    line = JsonFormatter().format(made)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert json.loads(line)["message"] == message
    assert json.loads(line)["path"] == field


def test_a_field_cannot_pretend_to_be_another() -> None:
    line = ConsoleFormatter(is_coloured=False).format(record("request", path="/x status=200", status=404))
    assert line.endswith('path="/x status=200" status=404')


def test_a_field_cannot_take_the_place_of_the_record_itself() -> None:
    document = json.loads(JsonFormatter().format(record("request", level="error", ts="never", logger="other")))
    assert (document["level"], document["logger"]) == ("info", "guepard.test")
    assert document["ts"].startswith("2023-")


def test_lines_of_a_traceback_cannot_be_taken_for_records() -> None:
    made = record("the model raised", error=raised(INJECTION))
    first, *rest = ConsoleFormatter(is_coloured=False).format(made).split("\n")
    assert first.endswith("the model raised")
    assert len(rest) > 3
    assert all(line.startswith("    | ") and line.isprintable() for line in rest)
    document = json.loads(JsonFormatter().format(made))
    assert document["exception"].endswith(INJECTION)


@pytest.mark.parametrize("value", [float("nan"), Circular(), {1: Circular()}, {(1, 2): 3}, b"bytes", 10**40])
def test_a_value_that_json_lacks_costs_its_type_not_the_record(value: object) -> None:
    document = json.loads(JsonFormatter().format(record("odd", odd=value)))
    assert document["message"] == "odd"
    assert document["odd"] is not None
    assert "\n" not in ConsoleFormatter(is_coloured=False).format(record("odd", odd=value))


def test_arguments_that_do_not_fit_their_message_do_not_lose_it() -> None:
    assert json.loads(JsonFormatter().format(record("%d rows", "many")))["message"] == "%d rows"


def test_a_message_is_cut_at_its_limit() -> None:
    message = json.loads(JsonFormatter().format(record("x" * 10 * MESSAGE_LIMIT)))["message"]
    assert message == "x" * MESSAGE_LIMIT + "…"


def test_a_deep_traceback_keeps_its_end() -> None:
    def recurse(depth: int) -> None:
        if depth == 0:
            raise ValueError("the cause")
        (recurse if depth % 2 else lambda deeper: recurse(deeper))(depth - 1)

    try:
        recurse(sys.getrecursionlimit() // 4)
    except ValueError as error:
        document = json.loads(JsonFormatter().format(record("deep", error=error)))
    assert document["exception"].endswith("ValueError: the cause")
    assert len(document["exception"]) <= 32_768
