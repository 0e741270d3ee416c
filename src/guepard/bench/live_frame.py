"""One look at a measurement under way, as lines for a terminal or as one plain line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from guepard.bench import figures
from guepard.bench.progress import Progress
from guepard.bench.terminal import Ink, clipped, shown_width

_NARROW = 60
_BAR_MOST = 40


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What bars and sparklines are drawn with, from empty to full."""

    done: str
    left: str
    levels: str

    @classmethod
    def unicode(cls) -> Self:
        return cls("█", "░", "▁▂▃▄▅▆▇█")

    @classmethod
    def ascii(cls) -> Self:
        return cls("#", "-", "_.-=+*%#")


def frame(
    progress: Progress, points: Sequence[float | None], columns: int, rows: int, ink: Ink, glyphs: Glyphs
) -> list[str]:
    """At most `rows` lines, none wider than `columns`, in order of importance."""
    width = max(columns - 1, 10)
    lines = [_head(progress, width, ink, glyphs)]
    if progress.step:
        lines.append(ink.strong(clipped(figures.one_line(progress.step), width)))
    lines += [clipped(line, width) for line in _figures(progress, is_narrow=width < _NARROW)]
    if any(progress.errors.values()):
        lines.append(ink.bad(clipped(f"errors      {_errors(progress)}", width)))
    spark = sparkline(points, width - 24, glyphs)
    if spark:
        lines.append(f"{clipped('p99 by time', width):<12}{spark}")
    return lines[: max(rows, 1)]


def plain_line(progress: Progress) -> str:
    """The same as one line for a log."""
    words = [figures.one_line(progress.step, 120)] if progress.step else []
    words.append(f"{progress.phase} {_time(progress)}")
    if progress.achieved_rate is not None:
        words.append(_rates(progress))
    if progress.p50_ms is not None:
        words.append(f"p50 {figures.number(progress.p50_ms)} ms, p99 {figures.number(progress.p99_ms)} ms")
    words.append(f"{figures.count(progress.in_flight)} in flight")
    if progress.send_lag_p99_ms is not None:
        words.append(f"send lag p99 {figures.number(progress.send_lag_p99_ms)} ms")
    if any(progress.errors.values()):
        words.append(f"errors: {_errors(progress)}")
    return "  ".join(words)


def sparkline(points: Sequence[float | None], width: int, glyphs: Glyphs) -> str:
    """The last points that fit, from the smallest to the largest among them, and which these are. "" for fewer than 2.

    Points without a value are blanks.
    """
    shown = list(points[-width:]) if width > 0 else []
    known = [point for point in shown if point is not None]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    step = (high - low) / (len(glyphs.levels) - 1) or 1.0
    marks = "".join(" " if point is None else glyphs.levels[round((point - low) / step)] for point in shown)
    return f"{marks} {figures.number(low, 2)}-{figures.number(high, 2)} ms"[: width + 12]


def _head(progress: Progress, width: int, ink: Ink, glyphs: Glyphs) -> str:
    phase, time = figures.one_line(progress.phase, 24), _time(progress)
    room = min(width - shown_width(phase) - len(time) - 4, _BAR_MOST)
    if progress.total_s is None or room < 8:
        return clipped(f"{phase}  {time}", width)
    share = min(max(progress.elapsed_s / progress.total_s, 0.0), 1.0) if progress.total_s else 1.0
    full = round(share * room)
    return f"{ink.strong(phase)}  {glyphs.done * full}{ink.faint(glyphs.left * (room - full))}  {time}"


def _figures(progress: Progress, is_narrow: bool) -> list[str]:
    rate = f"rate        {_rates(progress)}" if progress.achieved_rate is not None else ""
    latency = ""
    if progress.p50_ms is not None:
        latency = f"latency     p50 {figures.number(progress.p50_ms)} ms  p99 {figures.number(progress.p99_ms)} ms"
    flight = f"in flight   {figures.count(progress.in_flight)}"
    lag = ""
    if progress.send_lag_p99_ms is not None:
        lag = f"send lag    p99 {figures.number(progress.send_lag_p99_ms)} ms"
    if is_narrow:
        return [line for line in (rate, latency, flight, lag) if line]
    return [line for line in (rate, latency, f"{flight:<34}{lag}".rstrip()) if line]


def _rates(progress: Progress) -> str:
    done = f"{figures.number(progress.achieved_rate)}/s"
    return done if progress.offered_rate is None else f"{done} of {figures.number(progress.offered_rate)}/s asked"


def _time(progress: Progress) -> str:
    if progress.total_s is None:
        return f"{progress.elapsed_s:.0f} s"
    return f"{progress.elapsed_s:.0f} of {progress.total_s:.0f} s"


def _errors(progress: Progress) -> str:
    kinds = sorted(progress.errors.items(), key=lambda item: -item[1])
    return ", ".join(f"{figures.one_line(name, 40)} {figures.count(count)}" for name, count in kinds if count)
