"""Figures as sentences hold them."""

import pytest

from guepard.measure.figures import digits, ms_text, percentile_text, rate_text, share_text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0123, "0.0123"), (1e-5, "0.00001"), (4.564, "4.56"), (99.94, "99.9"), (99.96, "100"),
     (1234.5, "1,234"), (2e9, "2,000,000,000")],
)  # fmt: skip
def test_three_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_units() -> None:
    assert rate_text(812.4) == "812/s"
    assert ms_text(0.25) == "250 us"
    assert ms_text(0) == "0 ms"
    assert ms_text(41.5) == "41.5 ms"
    assert ms_text(61_000) == "61 s"
    assert share_text(0.0312) == "3.12 %"
    assert percentile_text(99) == "p99"
    assert percentile_text(99.9) == "p99.9"
    assert percentile_text(99.99999) == "p99.99999"
