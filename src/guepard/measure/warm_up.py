"""Where warming up ends: the part at the beginning of a run that is unlike the rest."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guepard.measure.autocorrelation import variance_factor
from guepard.measure.distributions import student_quantile

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Fewer slices show no end of anything.
_LEAST_SLICES = 8
# Of a level: what differs by less is not worth cutting.
_WORTH = 0.03
# In standard deviations. One slice, however slow, is one slice.
_MOST = 6.0
# Chance of one contrast; the largest of all that are looked at, of both lines, exceeds it in about 1 of 100 runs.
_CHANCE = 1e-4
_PIECES = 6
_LEAST_VARIANCE = 0.1
# What a line still changes in its second half, as a share of what it changed in all. A slope has 0.4, an approach
# with a time constant of a sixth of the run 0.04. Where a slope also fits better than a step, less is enough.
_STILL_CHANGING = 0.25
_STILL_CHANGING_ON_A_SLOPE = 0.1


class WarmUp(NamedTuple):
    """`end_s` is where measuring begins, 0 if nothing is cut. `says` tells people why."""

    end_s: float
    says: str


class _Line(NamedTuple):
    """A time line as shares of its level, which is that of its second half, and in standard deviations from it."""

    name: str
    slices: Integers
    shares: Floats
    deviation: Floats


def find_warm_up(succeeded: Integers, medians_ns: Floats, slice_s: float) -> WarmUp:
    """The end of warming up, from successes and median latency of equal slices of the run, in order.

    Shapes: both [slices]. A median is NaN where nothing succeeded.

    Each of the two lines is split where the squares within its two parts are least, and the first part is cut if it
    differs from the second by more than lines as noisy, and as alike from slice to slice, do by chance; then again in
    what is left, so that a slow approach is followed to its end. At most half of the run is cut. If a line still
    changes in its second half as a slope does, no part of it is the settled one, and nothing is cut.

    Source: least squares for one change in the mean, D. M. Hawkins, "Testing a sequence of observations for a shift in
        location", JASA 72 (1977); cutting what is unlike the rest, K. P. White, "An effective truncation heuristic for
        bias reduction in simulation output", Simulation 69 (1997).
    """
    slices = len(succeeded)
    if slices < _LEAST_SLICES:
        return WarmUp(0.0, f"nothing cut: {slices} slices of {slice_s:g} s are too few to see an end of warming up")
    lines = [line for line in (_rate(succeeded), _latency(medians_ns)) if line is not None]
    if not lines:
        return WarmUp(0.0, "nothing cut: too few successes to see an end of warming up")
    ends = [_end(line, slices) for line in lines]
    end = max(ends)
    if end > 0:
        line = lines[ends.index(end)]
        ratio = float(line.shares[line.slices < end].mean())
        return WarmUp(
            end * slice_s, f"the first {end * slice_s:g} s are cut: {line.name} was {ratio:.2g} times that of later"
        )
    if min(ends) < 0:
        return WarmUp(0.0, "nothing cut: the run changed until its end, no part of it was settled")
    return WarmUp(0.0, "nothing cut: the beginning was like the rest")


def _rate(succeeded: Integers) -> _Line | None:
    values = succeeded.astype(np.float64)
    later = values[len(values) // 2 :]
    level = float(np.median(later))
    if level <= 0:
        return None
    # One more or less in a slice may be where it was cut.
    spread = max(_spread(later), _WORTH * level, 1.0)
    return _Line("throughput", np.arange(len(values)), values / level, _within((values - level) / spread))


def _latency(medians_ns: Floats) -> _Line | None:
    index = np.flatnonzero(np.isfinite(medians_ns) & (medians_ns > 0))
    is_later = index >= len(medians_ns) // 2
    if len(index) < _LEAST_SLICES or is_later.sum() < _LEAST_SLICES // 2:
        return None
    values = np.log(medians_ns[index])
    values -= np.median(values[is_later])
    return _Line("latency", index, np.exp(values), _within(values / max(_spread(values[is_later]), _WORTH)))


def _within(deviation: Floats) -> Floats:
    return np.clip(deviation, -_MOST, _MOST)


def _spread(values: Floats) -> float:
    """Standard deviation, as the median distance from the median tells it: strays do not count."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _end(line: _Line, slices: int) -> int:
    """The slice in which the settled part begins; 0 if that is the first one, -1 if the line changes to its end."""
    values = line.deviation
    half = int(np.searchsorted(line.slices, slices // 2, side="right")) - 1
    sure = student_quantile(1 - _CHANCE, len(values) - 2)
    step, contrast = _best_step(values, half)
    if max(contrast, _slope_contrast(values)) >= sure and _is_sloping(line, step):
        return -1
    cut = 0
    for _ in range(_PIECES):
        if contrast < sure:
            break
        cut += step
        step, contrast = _best_step(values[cut:], half - cut)
    return int(line.slices[cut]) if cut else 0


def _is_sloping(line: _Line, step: int) -> bool:
    """Whether the third quarter still lies where a slope from the beginning to the last quarter would have it."""
    shares, values = line.shares, line.deviation
    half, last = len(shares) // 2, len(shares) * 3 // 4
    end = float(np.median(shares[last:]))
    change = float(np.median(shares[:step])) - end
    if change == 0:
        return False
    difference = float(values[:step].mean() - values[step:].mean())
    by_step = difference**2 * step * (len(values) - step) / len(values)
    time = _time(len(values))
    by_slope = float(time @ values) ** 2 / float(time @ time)
    most = _STILL_CHANGING_ON_A_SLOPE if by_slope > by_step else _STILL_CHANGING
    return (float(np.median(shares[half:last])) - end) / change > most


def _slope_contrast(values: Floats) -> float:
    """By how many standard errors a straight line rises or falls."""
    time = _time(len(values))
    centred = values - values.mean()
    slope = float(time @ centred) / float(time @ time)
    residuals = centred - slope * time
    variance = _variance(residuals) * variance_factor(residuals)
    return abs(slope) * math.sqrt(float(time @ time) / variance)


def _time(count: int) -> Floats:
    """Slices from the middle of the run."""
    return np.linspace(-(count - 1) / 2, (count - 1) / 2, count)


def _best_step(values: Floats, most: int) -> tuple[int, float]:
    """How long a beginning of at most `most` values differs most from the rest, and by how many standard errors."""
    count = len(values)
    if most < 1 or count < _LEAST_SLICES:
        return 0, 0.0
    before = np.arange(1, most + 1)
    sums = values.cumsum()
    difference = sums[:most] / before - (sums[-1] - sums[:most]) / (count - before)
    gain = difference**2 * before * (count - before) / count
    step = int(gain.argmax()) + 1
    residuals = values.copy()
    residuals[:step] -= residuals[:step].mean()
    residuals[step:] -= residuals[step:].mean()
    variance = _variance(residuals) * variance_factor(residuals[step:])
    return step, math.sqrt(float(gain[step - 1]) / variance)


def _variance(residuals: Floats) -> float:
    """Of what is left when two figures are fitted."""
    return max(float(residuals @ residuals) / (len(residuals) - 2), _LEAST_VARIANCE)
