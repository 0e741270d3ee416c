"""How alike neighbours in time are, and what that costs in certainty."""

import math

import numpy as np
from numpy.typing import NDArray

# Neighbours that are more alike than this are not told from a drift.
_MOST_ALIKE = 0.9
# In standard errors of the estimate. To believe in too little likeness costs more than to believe in too much.
_CAUTION = 0.15


def likeness(residuals: NDArray[np.float64]) -> float:
    """Correlation of values with the next ones, from 0 to 0.9: what estimating takes away is given back.

    `residuals` are in order of time and sum to about zero.
    Source: bias (1 + 4r) / n of the estimate, M. G. Kendall, "Note on bias in the estimation of autocorrelation",
        Biometrika 41 (1954).
    """
    squares = float(residuals @ residuals)
    count = len(residuals)
    if squares == 0 or count < 3:
        return 0.0
    correlation = float(residuals[1:] @ residuals[:-1]) / squares
    cautious = correlation + (1 + 4 * correlation) / count + _CAUTION / math.sqrt(count)
    return min(max(cautious, 0.0), _MOST_ALIKE)


def variance_factor(residuals: NDArray[np.float64]) -> float:
    """How many times as much a mean of such values varies as one of independent values.

    Source: a first-order autoregression, as in A. M. Law, Simulation Modeling and Analysis, 9.5.
    """
    alike = likeness(residuals)
    return (1 + alike) / (1 - alike)
