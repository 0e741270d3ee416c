"""Whether a run was one thing: the same throughput and the same latency from its beginning to its end."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guepard.measure.autocorrelation import variance_factor
from guepard.measure.distributions import fisher_tail, student_probability
from guepard.measure.figures import change_text, percentile_text, share_text
from guepard.measure.results import Steadiness

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SECOND = 1_000_000_000
_WINDOW_REQUESTS = 20
_LEAST_WINDOWS = 3
# Of a window. What neighbours differ by is the chance that windows are judged against.
_PARTS = 8
# Of the median: less is steady, however surely it is there.
_TOLERATED = 0.1
# Of a latency: as much as requests may leave late. What is less may be the machine's, waking up and sharing its caches.
_TOLERATED_NS = 1_000_000
# Times the variance that their parts explain. Below it are the ups and downs of a queue that is itself steady; its
# tail has larger ones.
_RATIO = 5.0
_RATIO_OF_TAIL = 12.0
_CHANCE = 2e-5
_CHANCE_OF_DRIFT = 2e-3


class _Figure(NamedTuple):
    """Throughput or a percentile: its value in pieces of the run, and what each part has more than is expected.

    Shapes: residuals [windows * 8].
    """

    name: str
    residuals: Floats
    value: "_Value"


class _Value(NamedTuple):
    """The values of a figure between consecutive edges. `level` is None for throughput."""

    times: Integers
    latency: Integers
    level: float | None

    def tolerated(self, value: float) -> float:
        """What it may differ by, as a share of `value`."""
        return _TOLERATED if self.level is None or value <= 0 else max(_TOLERATED, _TOLERATED_NS / value)

    def between(self, edges: Integers) -> Floats:
        places = np.searchsorted(self.times, edges)
        if self.level is None:
            return np.diff(places) / np.diff(edges) * _SECOND
        return np.array([_quantile(self.latency[start:end], self.level) for start, end in pairwise(places)])


class _Spread(NamedTuple):
    """Largest less least value over windows, as a share of the median, and how much chance would make it."""

    share: float
    by_chance: float
    is_real: bool


def judge(
    ended_ns: Integers, due_ns: Integers, latency_ns: Integers, window_ns: tuple[int, int], q: float
) -> Steadiness:
    """Whether throughput and the q-quantile of latency held still between two points of time.

    Shapes: the first three [successes], in any order: when each ended, when it was due, how long it took from then.
        Some may lie outside: what ended inside is throughput, what was due inside is latency.

    The time is cut into windows of a second and at least 20 requests; three are needed. They are unsteady if the
    largest and the least differ by more than a tenth of the median, a latency also by more than a millisecond, what
    chance makes them differ by taken off, and if they vary several times as much as the steps from one eighth of a
    window to the next explain: an F test, in all eight phases that windows can have, of what ended and of what was
    slower than the q-quantile, or than the median, which shows sooner that a server changes. Drift is the change from
    the first to the last third. It counts if it is as large, and if Student's t over the eighths finds it. What goes up
    and down within a window is not seen.

    Cost: a sort of the successes, and one of each window.
    Source: windows and a tenth, triton-inference-server/perf_analyzer, docs/measurements_metrics.md; variance from
        successive differences, J. von Neumann et al., "The mean square successive difference", Annals of Mathematical
        Statistics 12 (1941).
    """
    start_ns, end_ns = window_ns
    ends = np.sort(ended_ns[(ended_ns >= start_ns) & (ended_ns < end_ns)])
    is_due = (due_ns >= start_ns) & (due_ns < end_ns)
    order = np.argsort(due_ns[is_due], kind="stable")
    due, latency = due_ns[is_due][order], latency_ns[is_due][order]
    seconds = (end_ns - start_ns) / _SECOND
    windows = int(min(seconds, min(len(due), len(ends)) / _WINDOW_REQUESTS))
    if windows < _LEAST_WINDOWS:
        says = (
            f"too short: {len(due)} requests in {seconds:g} s; steadiness is judged over at least {_LEAST_WINDOWS} "
            f"windows of 1 s and {_WINDOW_REQUESTS} requests"
        )
        return Steadiness(is_steady=False, throughput_spread=0.0, latency_spread=0.0, drift=0.0, says=says)
    edges = np.linspace(start_ns, end_ns, windows * _PARTS + 1).astype(np.int64)
    counts = np.diff(np.searchsorted(due, edges))
    throughput = _Figure("throughput", _centred(np.diff(np.searchsorted(ends, edges))), _Value(ends, latency, None))
    percentile = _percentile(due, latency, counts, edges, q)
    figures = [throughput, percentile]
    if q != 0.5:
        figures.append(_percentile(due, latency, counts, edges, 0.5))
    spreads = [_spread(figure, edges) for figure in figures]
    drifts = [_drift(figure, edges) for figure in figures]
    reasons = [
        f"{figure.name} differs by {share_text(spread.share)} of its median between windows, where chance makes "
        f"{share_text(spread.by_chance)}"
        for figure, spread in zip(figures, spreads, strict=True)
        if spread.is_real
    ]
    reasons += [
        f"{figure.name} changes by {change_text(drift)} from the first to the last third"
        for figure, (drift, is_real) in zip(figures, drifts, strict=True)
        if is_real
    ]
    over = f"over {windows} windows of {seconds / windows:.3g} s"
    says = f"unsteady {over}: {'; '.join(reasons)}"
    if not reasons:
        says = (
            f"steady {over}: throughput differs by {share_text(spreads[0].share)} of its median between "
            f"windows, {percentile.name} by {share_text(spreads[1].share)}, no more than a steady server's would"
        )
    return Steadiness(
        is_steady=not reasons,
        throughput_spread=spreads[0].share,
        latency_spread=spreads[1].share,
        drift=drifts[1][0],
        says=says,
    )


def _percentile(due: Integers, latency: Integers, counts: Integers, edges: Integers, q: float) -> _Figure:
    """The q-quantile, with how many more than expected are slower than it in each part."""
    slow = latency > _quantile(latency, q)
    beyond = np.diff(np.concatenate([[0], slow.cumsum()])[np.searchsorted(due, edges)])
    return _Figure(percentile_text(100 * q), beyond - slow.mean() * counts, _Value(due, latency, q))


def _spread(figure: _Figure, edges: Integers) -> _Spread:
    """How much windows differ, in the phase in which they differ most for their parts."""
    steps = np.diff(figure.residuals)
    chance = float(steps @ steps) / (2 * len(steps))
    ratios = [_variance(figure.residuals, phase) / chance if chance > 0 else 0.0 for phase in range(_PARTS)]
    phase = max(range(_PARTS), key=lambda phase: ratios[phase])
    values = figure.value.between(edges[phase::_PARTS])
    values = values[np.isfinite(values)]
    middle = float(np.median(values))
    share = float(values.max() - values.min()) / middle if middle > 0 else 0.0
    ratio = ratios[phase]
    level = figure.value.level
    least = _RATIO if level is None or level <= 0.5 else _RATIO_OF_TAIL
    windows = (len(figure.residuals) - phase) // _PARTS
    # Steps between neighbours, of which each value has two, tell the variance as well as two thirds as many values.
    is_chance = ratio < least or fisher_tail(ratio, windows - 1, 2 * len(steps) / 3) > _CHANCE
    by_chance = share / math.sqrt(max(ratio, 1.0))
    beyond = math.sqrt(max(share**2 - by_chance**2, 0.0))
    return _Spread(share, by_chance, not is_chance and beyond > figure.value.tolerated(middle))


def _variance(residuals: Floats, phase: int) -> float:
    """The variance between windows that begin at this part, per part."""
    windows = (len(residuals) - phase) // _PARTS
    means = residuals[phase : phase + windows * _PARTS].reshape(windows, _PARTS).mean(axis=1)
    return _PARTS * float(np.var(means, ddof=1)) if windows > 1 else 0.0


def _drift(figure: _Figure, edges: Integers) -> tuple[float, bool]:
    """The change from the first to the last third as a share of the first, and whether it is large and no chance."""
    residuals = figure.residuals
    third = len(residuals) // 3
    first, _, last = figure.value.between(edges[[0, third, len(residuals) - third, len(residuals)]])
    change = float(last / first - 1) if first > 0 and last > 0 else 0.0
    pieces = residuals[:third], residuals[third:-third], residuals[-third:]
    rest = np.concatenate([_centred(piece) for piece in pieces])
    more = variance_factor(rest)
    variance = float(rest @ rest) / (len(rest) - 3) * more * 2 / third
    difference = abs(float(pieces[2].mean() - pieces[0].mean()))
    if variance == 0:
        return change, difference > 0 and abs(change) > figure.value.tolerated(first)
    tail = student_probability(-difference / math.sqrt(variance), (len(rest) - 3) / more)
    return change, 2 * tail < _CHANCE_OF_DRIFT and abs(change) > figure.value.tolerated(first)


def _centred(values: NDArray[np.int64] | Floats) -> Floats:
    centred: Floats = values - values.mean()
    return centred


def _quantile(latency: Integers, q: float) -> float:
    """The nearest rank; NaN of nothing."""
    if len(latency) == 0:
        return math.nan
    rank = max(math.ceil(round(q * len(latency), 9)), 1) - 1
    return float(np.partition(latency, rank)[rank])
