"""Outcomes one by one and by the column."""

import numpy as np

from guepard.measure.load.outcomes import GRPC_BASE, are_successes, is_success


def test_columns_are_judged_as_single_outcomes_are() -> None:
    outcomes = np.arange(GRPC_BASE + 100)
    found = are_successes(outcomes)
    assert found.tolist() == [is_success(outcome) for outcome in outcomes.tolist()]
    assert found.sum() == 102
