"""What executions take teaches how long the next ones may."""

import pytest

from guepard.core.model_config import SECOND
from guepard.engine.patience import Patience


def test_it_is_five_seconds_at_least_and_five_times_what_is_usual() -> None:
    patience = Patience()
    assert patience.ns == 5 * SECOND
    patience.remember(SECOND // 2)
    assert patience.ns == 5 * SECOND
    for _ in range(10):
        patience.remember(2 * SECOND)
    assert patience.ns == pytest.approx(10 * SECOND, rel=0.01)


def test_what_is_usual_may_change() -> None:
    patience = Patience()
    patience.remember(60 * SECOND)
    assert patience.ns == 300 * SECOND
    for _ in range(256):
        patience.remember(SECOND // 100)
    assert patience.ns == 5 * SECOND


def test_one_among_many_is_not_usual() -> None:
    patience = Patience()
    for _ in range(255):
        patience.remember(SECOND // 100)
    patience.remember(60 * SECOND)
    assert patience.ns == 5 * SECOND
