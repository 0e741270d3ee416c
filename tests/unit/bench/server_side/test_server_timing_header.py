"""The header Server-Timing is read by its grammar, whatever a server writes."""

import time

import pytest

from guepard.bench.server_side.server_timing import mean_timings, read_server_timing


@pytest.mark.parametrize(
    ("value", "durations"),
    [
        ("queue;dur=1.5", {"queue": 1.5}),
        ("decode;dur=0.012, queue;dur=1, input;dur=.5", {"decode": 0.012, "queue": 1.0, "input": 0.5}),
        ('db;desc="a \\"quoted\\", text; dur=9";dur="53.2"', {"db": 53.2}),
        ("a ; dur = 2\t,\tb;DUR=3", {"a": 2.0, "b": 3.0}),
        ("a;dur=1;dur=2", {"a": 1.0}),
        ("a;dur=1, a;dur=2", {"a": 3.0}),
        ("cache;desc=hit, cdn", {}),
        ("a;dur=1e-3,", {"a": 0.001}),
        (",, a;;dur=1 ,", {"a": 1.0}),
        ("total;dur=123.4;desc=", None),
        ("", {}),
        ("a;dur=x", None),
        ("a;dur=-1", None),
        ("a;dur=nan", None),
        ("a;dur=1e999", None),
        ("a;dur=1_0", None),
        ("a b;dur=1", None),
        ('a;desc="never closed', None),
        ("a=1", None),
        ("é;dur=1", None),
    ],
)
def test_each_value_is_read_or_refused(value: str, durations: dict[str, float] | None) -> None:
    assert read_server_timing(value) == durations


def test_no_value_takes_long() -> None:
    started = time.monotonic()
    for value in ("a" * 8_000 + "\x00", "a;" * 4_000 + "=", 'a;b="' + "\\" * 8_000, " " * 8_000 + "\x00", "a" * 10**7):
        assert read_server_timing(value) is None
    assert time.monotonic() - started < 5.0


def test_means_add_up_as_the_durations_do() -> None:
    means = mean_timings([b"queue;dur=1, compute;dur=4", "queue;dur=3", b"broken;", b"compute;dur=x", "hit"])
    assert means.phases == {"queue": 1.0, "compute": 1.0}
    assert (means.answers, means.malformed) == (4, 1)


def test_of_very_many_some_are_taken_evenly() -> None:
    means = mean_timings([b"a;dur=%d" % (index % 2) for index in range(40_001)])
    assert means.answers <= 20_000
    assert means.phases["a"] == pytest.approx(0.5, abs=0.01)


def test_without_any_there_are_no_means() -> None:
    assert mean_timings([]) == ({}, 0, 0)
