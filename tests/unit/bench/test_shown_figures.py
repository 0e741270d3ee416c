"""Figures as people read them."""

import math

import pytest

from guepard.bench import figures
from guepard.measure.figures import percentile_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.000123, "0.000123"), (0.0999, "0.0999"), (1.234, "1.23"), (9.996, "10.0"), (12.36, "12.4"),
        (99.96, "100"), (123.4, "123"), (1234.5, "1,234"), (98765.4, "98,765"), (-3.14159, "-3.14"),
        (1e-12, "0"), (None, "-"), (math.nan, "-"), (math.inf, "-"),
    ],
)  # fmt: skip
def test_numbers_have_three_significant_digits_and_no_exponent(value: float | None, text: str) -> None:
    assert figures.number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"), (0.00001, "< 0.01 %"), (0.004, "0.40 %"), (0.0312, "3.1 %"), (0.5, "50.0 %"), (0.99, "99.0 %"),
        (0.9999, "> 99.9 %"), (1, "100 %"), (-0.05, "-5.0 %"), (None, "-"), (math.nan, "-"),
    ],
)  # fmt: skip
def test_little_is_not_nothing_and_nearly_all_is_not_all(share: float | None, text: str) -> None:
    assert figures.percent(share) == text


def test_what_somebody_chose_is_written_as_chosen() -> None:
    assert [figures.plain(value) for value in (50.0, 0.5, 1000.0, 2_500_000.0)] == ["50", "0.5", "1,000", "2,500,000"]
    assert figures.plain(487.3918273, 4) == "487.4"
    assert percentile_text(99.999) == "p99.999"


def test_spans_and_sizes_have_their_unit() -> None:
    assert [figures.seconds(value) for value in (0.25, 30, 119.5, 180, 200)] == [
        "250 ms", "30 s", "119.5 s", "3 min", "3 min 20 s",
    ]  # fmt: skip
    assert [figures.size(value) for value in (0, 812, 999.7, 602_112, 1.5e18)] == [
        "0 B", "812 B", "1.00 kB", "602 kB", "1,500 PB",
    ]  # fmt: skip
    assert figures.binary_size(2**34) == "16.0 GiB"


def test_an_end_of_an_interval_that_cannot_be_told_is_no_figure() -> None:
    assert figures.interval(1.5, None) == "1.500 .. ?"
    assert figures.interval(None, None) == "-"
    assert figures.change(-0.117) == "-11.7 %"
    assert figures.change(None) == "-"


def test_text_of_others_stays_on_its_line_and_commands_no_terminal() -> None:
    assert figures.one_line("a\x1b[2J\r\nb\u202ec\x00") == r"a\x1b[2J  b\u202ec\x00"
    assert figures.one_line("x" * 20, 10) == "xxxxxxx..."
    assert figures.one_line("modèle 模型") == "modèle 模型"
