"""Places and marks on axes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.bench.html_report.scales import Linear, Log, Percentiles, Scale, nice_step


def labels(scale: Scale, most: int = 7) -> list[str]:
    return [tick.label for tick in scale.ticks(most)]


def test_a_linear_axis_ends_at_a_mark_and_has_round_marks() -> None:
    assert labels(Linear(0, 187)) == ["0", "50", "100", "150", "200"]
    assert labels(Linear(0, 0.3)) == ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"]
    assert labels(Linear(0, 0)) == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert labels(Linear(0, 34, is_rounded=False)) == ["0", "5", "10", "15", "20", "25", "30"]


def test_a_logarithmic_axis_goes_from_one_round_figure_to_another() -> None:
    assert labels(Log(5.5, 132)) == ["5", "10", "20", "50", "100", "200"]
    assert labels(Log(1, 1)) == ["1", "2"]
    assert labels(Log(0.004, 3_000)) == ["0.01", "0.1", "1", "10", "100", "1,000"]
    assert (Log.around([0.0, math.inf, 3.0, 40.0]).low, Log.around([3.0, 40.0]).high) == (2.0, 50.0)
    assert Log(2, 20).at(0) == 0.0


def test_each_further_nine_takes_the_same_room() -> None:
    axis = Percentiles(10_000)
    places = [axis.at(share) for share in (0, 0.9, 0.99, 0.999, 0.9999)]
    assert places == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert axis.at(1.0) == 1.0
    assert labels(axis) == ["p50", "p90", "p99", "p99.9", "p99.99"]
    assert axis.share(0.5) == pytest.approx(0.99)
    assert labels(Percentiles(3)) == ["p50", "p90"]


@given(st.floats(1e-6, 1e9), st.floats(1.0, 1e6))
def test_marks_lie_on_the_axis_in_order_and_are_few(low: float, ratio: float) -> None:
    for scale in (Linear(0, low * ratio), Linear(low, low * ratio, is_rounded=False), Log(low, low * ratio)):
        values = [tick.value for tick in scale.ticks(7)]
        assert values == sorted(set(values))
        assert 1 <= len(values) <= 14
        assert all(-1e-6 <= scale.at(value) <= 1 + 1e-6 for value in values)


@given(st.floats(1e-9, 1e12))
def test_a_step_is_one_two_or_five_times_a_power_of_ten(rough: float) -> None:
    step = nice_step(rough)
    assert rough * (1 - 1e-6) <= step <= rough * 2.5 * (1 + 1e-6)
    assert round(step / 10 ** math.floor(math.log10(step) + 1e-9), 6) in (1, 2, 5)


@pytest.mark.parametrize("rough", [0.0, -1.0, math.nan, math.inf])
def test_a_step_of_nothing_is_one(rough: float) -> None:
    assert nice_step(rough) == 1.0
