"""Distribution functions against scipy's."""

import pytest
from scipy import optimize, special, stats

from guepard.measure.distributions import (
    beta_probability,
    fisher_tail,
    normal_quantile,
    order_ranks,
    student_probability,
    student_quantile,
)


@pytest.mark.parametrize("a", [0.001, 0.5, 1, 7, 300, 20_000])
@pytest.mark.parametrize("b", [0.5, 1, 12, 4_000])
@pytest.mark.parametrize("x", [0.0, 1e-9, 0.02, 0.5, 0.83, 0.9999, 1.0])
def test_beta(a: float, b: float, x: float) -> None:
    assert beta_probability(a, b, x) == pytest.approx(special.betainc(a, b, x), abs=1e-10)


@pytest.mark.parametrize("freedom", [1, 2, 2.7, 5, 19, 200, 1e5])
@pytest.mark.parametrize("probability", [0.001, 0.025, 0.5, 0.8, 0.975, 0.99995])
def test_student(freedom: float, probability: float) -> None:
    quantile = student_quantile(probability, freedom)
    assert quantile == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-6, abs=1e-9)
    assert student_probability(quantile, freedom) == pytest.approx(probability, abs=1e-7)


def test_student_of_endless_freedom_is_normal() -> None:
    assert student_quantile(0.975, float("inf")) == normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975))


@pytest.mark.parametrize(("above", "below"), [(2, 15.3), (9, 52), (119, 640)])
@pytest.mark.parametrize("ratio", [0.0, 0.7, 1.5, 6.0, 300.0])
def test_fisher(ratio: float, above: float, below: float) -> None:
    assert fisher_tail(ratio, above, below) == pytest.approx(stats.f.sf(ratio, above, below), abs=1e-12)


@pytest.mark.parametrize("count", [20, 50, 200, 1_000, 10_000, 1_000_000])
@pytest.mark.parametrize("q", [0.1, 0.5, 0.9, 0.99, 0.999])
def test_order_ranks(count: int, q: float) -> None:
    low, high = order_ranks(count, q, 0.95)
    for rank, probability in ((low, 0.975), (high, 0.025)):
        if rank <= 0 or rank >= count + 1:
            continue

        def excess(r: float, probability: float = probability) -> float:
            return float(special.betainc(r, count + 1 - r, q)) - probability

        assert rank == pytest.approx(optimize.brentq(excess, 1e-6, count + 1 - 1e-6), abs=0.03)


def test_order_ranks_hold_the_binomial_interval() -> None:
    """Whole ranks that the binomial distribution allows are never inside the fractional ones."""
    count, q = 700, 0.95
    low, high = order_ranks(count, q, 0.95)
    lowest = int(stats.binom.ppf(0.025, count, q))
    highest = int(stats.binom.ppf(0.975, count, q)) + 1
    assert lowest <= low < lowest + 1
    assert highest - 1 < high <= highest


@pytest.mark.parametrize(("count", "reaches"), [(368, False), (369, True)])
def test_a_sample_reaches_beyond_p99_once_it_is_unlikely_to_lie_wholly_below(count: int, reaches: bool) -> None:
    assert (0.99**count <= 0.025) == (count >= 368)
    _, high = order_ranks(count - 1, 0.99, 0.95)
    assert (high <= count - 1) == reaches
