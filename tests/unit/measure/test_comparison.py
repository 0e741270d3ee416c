"""Verdicts on A and B: none where there is no difference, and never the wrong one."""

import numpy as np
import pytest
from numpy.random import Generator, default_rng

from guepard.measure.comparison import LEAST_BLOCKS, compare, interleave
from guepard.measure.results import Comparison
from tests.unit.measure.samples import Floats

RUNS = 1_000
NOISES = ("even", "strays", "drift", "alike", "heavy-tailed")


def draw_blocks(random: Generator, noise: str, blocks: int, spread: float) -> tuple[Floats, Floats]:
    """Values of A and B, equal but for noise, in the order in which blocks are run. Shapes: [runs, blocks] each."""
    count = 2 * blocks
    logs = random.normal(0, spread, (RUNS, count))
    if noise == "strays":
        logs += np.where(random.random(logs.shape) < 0.07, random.exponential(0.4, logs.shape), 0)
    elif noise == "drift":
        logs += np.linspace(0, 0.3, count)
    elif noise == "alike":
        for turn in range(1, count):
            logs[:, turn] = 0.7 * logs[:, turn - 1] + np.sqrt(1 - 0.7**2) * logs[:, turn]
    elif noise == "heavy-tailed":
        logs = random.standard_t(3, logs.shape) * spread
    is_b = np.array(interleave(blocks)) == "B"
    values = 20 * np.exp(logs)
    return values[:, ~is_b], values[:, is_b]


def verdicts(a: Floats, b: Floats) -> dict[str, float]:
    """The share of each verdict."""
    found = [compare("p99", list(first), list(second)).verdict for first, second in zip(a, b, strict=True)]
    return {verdict: found.count(verdict) / len(found) for verdict in ("faster", "slower", "cannot tell")}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("blocks", "spread"), [(5, 0.05), (8, 0.02), (12, 0.05), (20, 0.1)])
def test_a_and_a_are_told_apart_in_at_most_one_of_twenty(noise: str, blocks: int, spread: float) -> None:
    found = verdicts(*draw_blocks(default_rng(1), noise, blocks, spread))
    assert found["faster"] + found["slower"] <= 0.05


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("blocks", "spread"), [(5, 0.01), (5, 0.1), (10, 0.05), (20, 0.1)])
def test_five_percent_are_found_or_not_but_never_the_wrong_way_round(noise: str, blocks: int, spread: float) -> None:
    a, b = draw_blocks(default_rng(2), noise, blocks, spread)
    assert verdicts(a, 1.05 * b)["faster"] <= 0.005


@pytest.mark.parametrize(
    ("noise", "blocks", "spread", "least"),
    [("even", 5, 0.01, 0.99), ("even", 12, 0.03, 0.8), ("strays", 16, 0.01, 0.9), ("drift", 8, 0.01, 0.95)],
)
def test_five_percent_are_found_where_noise_allows(noise: str, blocks: int, spread: float, least: float) -> None:
    a, b = draw_blocks(default_rng(3), noise, blocks, spread)
    assert verdicts(a, 1.05 * b)["slower"] >= least
    assert verdicts(1.05 * a, b)["faster"] >= least


@pytest.mark.parametrize("blocks", [5, 8, 15, 30])
def test_intervals_hold_the_truth(blocks: int) -> None:
    a, b = draw_blocks(default_rng(4), "even", blocks, 0.05)
    found = [compare("p50", list(first), list(1.1 * second)) for first, second in zip(a, b, strict=True)]
    held = [holds(each, 0.1) for each in found]
    assert 0.93 <= sum(held) / RUNS <= 0.99


def holds(comparison: Comparison, share: float) -> bool:
    low, high = comparison.difference.low, comparison.difference.high
    assert low is not None
    assert high is not None
    return low <= share <= high


@pytest.mark.parametrize("blocks", [5, 10, 20])
def test_the_detectable_difference_is_found_in_four_of_five(blocks: int) -> None:
    a, b = draw_blocks(default_rng(5), "even", blocks, 0.03)
    pairs = zip(a, b, strict=True)
    detectable = float(
        np.median([compare("p99", list(first), list(second)).minimum_detectable for first, second in pairs])
    )
    assert 0.7 <= verdicts(a, (1 + detectable) * b)["slower"] <= 0.9


def noisy(random: Generator, level: float, blocks: int, spread: float = 0.01) -> list[float]:
    return list(level * np.exp(random.normal(0, spread, blocks)))


def test_words_of_a_slower_one() -> None:
    random = default_rng(6)
    found = compare("p99", noisy(random, 20, 10), noisy(random, 22, 10))
    assert found.verdict == "slower"
    assert found.blocks == 10
    assert found.difference.value == pytest.approx(0.1, abs=0.01)
    low, high = found.difference.low, found.difference.high
    assert low is not None
    assert high is not None
    shown = [f"{100 * share:.3g}" for share in (found.difference.value, low, high)]
    assert found.says == f"p99: B is {shown[0]} % slower (95 % interval {shown[1]} to {shown[2]} %)"


@pytest.mark.parametrize(("better", "verdict"), [("lower", "faster"), ("higher", "slower")])
def test_less_is_faster_or_slower(better: str, verdict: str) -> None:
    random = default_rng(7)
    a, b = noisy(random, 100, 8), noisy(random, 80, 8)
    found = compare("x", a, b, "lower" if better == "lower" else "higher")
    assert found.verdict == verdict
    assert found.difference.value == pytest.approx(-0.2, abs=0.02)
    assert found.says.startswith("x: B is ")
    assert f" % {verdict} (95 % interval 1" in found.says
    assert "-" not in found.says


def test_words_where_nothing_can_be_told() -> None:
    random = default_rng(8)
    found = compare("throughput", noisy(random, 100, 12, 0.05), noisy(random, 100, 12, 0.05), "higher")
    assert found.verdict == "cannot tell"
    assert found.says.startswith("throughput: cannot tell: the difference is between -")
    assert " % and +" in found.says
    assert found.says.endswith(f"; 12 blocks could show {100 * found.minimum_detectable:.3g} % or more")
    assert holds(found, found.difference.value)


@pytest.mark.parametrize("blocks", range(LEAST_BLOCKS))
def test_too_few_blocks(blocks: int) -> None:
    found = compare("p50", [10.0] * blocks, [20.0] * blocks)
    assert found.verdict == "cannot tell"
    assert (found.difference.low, found.difference.high) == (None, None)
    assert found.says == f"p50: cannot tell: {blocks} blocks of each are too few, at least 5 are needed"
    assert found.difference.value == pytest.approx(1 if blocks else 0)


@pytest.mark.parametrize("missing", [float("nan"), 0.0, float("inf")])
def test_a_block_without_a_value(missing: float) -> None:
    a = [10.0] * 6
    found = compare("p99", a, [20.0, 20.0, missing, 20.0, 20.0, 20.0])
    assert found.verdict == "cannot tell"
    assert found.says == "p99: cannot tell: block 3 has no value"
    assert found.difference.value == pytest.approx(1)


def test_equal_blocks() -> None:
    found = compare("p50", [10.0] * 8, [10.0] * 8)
    assert found.verdict == "cannot tell"
    assert found.difference.value == 0
    assert (
        found.says == "p50: cannot tell: the difference is between -0.1 % and +0.1 %; 8 blocks could show 0.1 % or more"
    )


def test_blocks_that_differ_always_by_the_same() -> None:
    assert compare("p50", [10.0] * 8, [10.5] * 8).verdict == "slower"
    assert compare("p50", [10.0] * 8, [9.5] * 8).verdict == "faster"


def test_less_than_a_histogram_can_tell_is_no_difference() -> None:
    assert compare("p50", [10.0] * 8, [10.005] * 8).verdict == "cannot tell"


def test_one_disturbed_block_does_not_decide() -> None:
    random = default_rng(9)
    a, b = noisy(random, 10, 10), noisy(random, 10.6, 10)
    b[4] = 40.0
    found = compare("p99", a, b)
    assert found.verdict == "slower"
    assert found.difference.value == pytest.approx(0.06, abs=0.02)


def test_blocks_go_in_pairs() -> None:
    with pytest.raises(ValueError, match="6 blocks of A and 5 of B"):
        compare("p99", [1.0] * 6, [1.0] * 5)


def test_turns() -> None:
    assert "".join(interleave(1)) == "AB"
    assert "".join(interleave(5)) == "ABBAABBAAB"
    assert interleave(0) == []


@pytest.mark.parametrize("blocks", [2, 6, 20])
def test_a_slope_falls_on_both_alike(blocks: int) -> None:
    order = np.array(interleave(blocks))
    assert (order == "A").sum() == (order == "B").sum() == blocks
    assert np.flatnonzero(order == "A").sum() == np.flatnonzero(order == "B").sum()
