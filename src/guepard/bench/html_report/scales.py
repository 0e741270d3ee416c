"""From figures to places on a chart, and the round figures at which an axis is marked.

Source: steps of 1, 2 and 5 times a power of ten, P. S. Heckbert, "Nice Numbers for Graph Labels", Graphics Gems, 1990.
    Percentiles against 1 / (1 - q) on a logarithmic axis: HdrHistogram's plots.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from guepard.bench import figures
from guepard.measure.figures import percentile_text

_RESOLUTION = 1e-12


@dataclass(frozen=True, slots=True)
class Tick:
    value: float
    label: str


class Scale(Protocol):
    """Places figures between 0, the beginning of the axis, and 1, its end."""

    def at(self, value: float) -> float: ...

    def ticks(self, most: int) -> list[Tick]:
        """About `most` marks, not many more."""
        ...


class Linear:
    """From `low` to `high`; with `is_rounded` the end is moved up to a mark."""

    def __init__(
        self, low: float, high: float, *, is_rounded: bool = True, label: Callable[[float], str] = figures.plain
    ) -> None:
        self.low = low
        self.high = high if high > low else low + 1
        if is_rounded:
            step = nice_step((self.high - low) / 5)
            self.high = low + math.ceil((self.high - low) / step - 1e-9) * step
        self._label = label

    def at(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[Tick]:
        step = nice_step((self.high - self.low) / max(most, 1))
        if step < _RESOLUTION * max(abs(self.low), abs(self.high)):
            # What lies closer together than floats can tell apart is one mark.
            return [Tick(self.low, self._label(self.low))]
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [Tick(value, self._label(value)) for value in (_round(n * step, step) for n in range(first, last + 1))]


class Log:
    """From `low` to `high`, both above 0, moved outwards to round figures."""

    def __init__(self, low: float, high: float) -> None:
        self.low = _down(low)
        self.high = max(_up(high), self.low * 2)

    @classmethod
    def around(cls, values: Iterable[float]) -> "Log":
        """Wide enough for all values above 0."""
        known = [value for value in values if value > 0 and math.isfinite(value)]
        return cls(min(known), max(known)) if known else cls(1.0, 10.0)

    def at(self, value: float) -> float:
        if value <= 0:
            return 0.0
        return min(max(math.log(value / self.low) / math.log(self.high / self.low), 0.0), 1.0)

    def ticks(self, most: int) -> list[Tick]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for steps in ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,)):
            values = [step * 10.0**decade for decade in decades for step in steps]
            inside = [value for value in values if self.low * 0.999 <= value <= self.high * 1.001]
            if len(inside) <= most:
                break
        return [Tick(value, figures.plain(_round(value, value))) for value in inside]


class Percentiles:
    """Shares of samples, from 0 to where one sample in `count` lies beyond. Each further nine takes the same room."""

    def __init__(self, count: float) -> None:
        self._nines = math.log10(max(count, 10.0))

    def at(self, value: float) -> float:
        if value >= 1:
            return 1.0
        return min(-math.log10(1 - value) / self._nines, 1.0)

    def share(self, place: float) -> float:
        """The share at a place: what `at` undoes."""
        return 1 - 10 ** (-place * self._nines)

    def ticks(self, most: int) -> list[Tick]:
        values = [0.5, 0.9, *(1 - 10.0**-nines for nines in range(2, math.floor(self._nines + 1e-9) + 1))]
        return [Tick(value, percentile_text(round(value * 100, 9))) for value in values[: max(most, 2)]]


def nice_step(rough: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below `rough`."""
    if not rough > 0 or not math.isfinite(rough):
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    for factor in (1, 2, 5, 10):
        if factor * power >= rough * (1 - 1e-9):
            return factor * power
    return 10 * power


def _down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return max(factor * power for factor in (1, 2, 5) if factor * power <= value * (1 + 1e-9))


def _up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return min(factor * power for factor in (1, 2, 5, 10) if factor * power >= value * (1 - 1e-9))


def _round(value: float, step: float) -> float:
    """Without the noise of the last digits."""
    return round(value, max(0, 2 - math.floor(math.log10(abs(step)))))
