"""Likeness of neighbours, and what it costs."""

import numpy as np
import pytest
from numpy.random import default_rng

from guepard.measure.autocorrelation import likeness, variance_factor
from tests.unit.measure.samples import autoregressive


@pytest.mark.parametrize("true", [0.0, 0.3, 0.6])
def test_likeness_is_found(true: float) -> None:
    runs = 2 * np.log(autoregressive(true).draw(default_rng(1), 200, 400))
    found = [likeness(values - values.mean()) for values in runs]
    assert np.mean(found) == pytest.approx(true, abs=0.04)


def test_independent_values_cost_little() -> None:
    runs = default_rng(2).normal(0, 1, (200, 100))
    assert 1 <= np.mean([variance_factor(values - values.mean()) for values in runs]) < 1.15


def test_values_that_take_turns_cost_nothing() -> None:
    assert variance_factor(np.tile([1.0, -1.0], 20)) == 1


def test_a_slope_is_as_alike_as_it_gets() -> None:
    assert likeness(np.arange(-50.0, 51.0)) == pytest.approx(0.9)


@pytest.mark.parametrize("values", [[], [0.0], [-1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
def test_too_few_or_equal_values_tell_nothing(values: list[float]) -> None:
    assert variance_factor(np.array(values)) == 1
