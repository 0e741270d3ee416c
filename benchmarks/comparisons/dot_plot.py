"""Charts of the comparison as SVG files: a row for each server, a mark for each series, a line for its spread.

title
● series  ■ series  ◆ series
label ├──────●─────■──────┤
      └ marks of the axis ┘
"""

from collections.abc import Sequence
from dataclasses import dataclass

from guepard.bench import figures
from guepard.bench.html_report.markup import Markup, joined, tag
from guepard.bench.html_report.scales import Linear, Log, Scale

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 860, 300, 60, 74, 44
ROW, STEP = 30, 7
STYLE = """\
svg { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.page { fill: #fff; } text { fill: #1f1e1b; } .faint { fill: #66625a; } .title { font-size: 16px; font-weight: 600; }
.own { font-weight: 700; } .band { fill: #f4f2ec; } .grid { stroke: #e4e0d6; } .axis { stroke: #a39e92; }
.s0 { fill: #0072b2; stroke: #0072b2; } .s1 { fill: #d0500a; stroke: #d0500a; } .s2 { fill: #00795a; stroke: #00795a; }
.spread { stroke-width: 1.5; fill: none; }
@media (prefers-color-scheme: dark) {
  .page { fill: #171613; } text { fill: #ece9e1; } .faint { fill: #a8a295; } .band { fill: #211f1a; }
  .grid { stroke: #302d27; } .axis { stroke: #756f63; }
  .s0 { fill: #56b4e9; stroke: #56b4e9; } .s1 { fill: #ff8f3f; stroke: #ff8f3f; }
  .s2 { fill: #2fc496; stroke: #2fc496; }
}
"""


@dataclass(frozen=True, slots=True)
class Mark:
    series: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    is_own: bool
    marks: tuple[Mark, ...]


def dot_plot(
    title: str, unit: str, series: Sequence[str], rows: Sequence[Row], *, description: str, is_log: bool = True
) -> str:
    """The file. Figures are written beside the marks only where there is one series."""
    values = [end for row in rows for mark in row.marks for end in (mark.low, mark.high, mark.value)]
    scale: Scale = Log.around(values) if is_log else Linear(0, max(values, default=1))
    height = TOP + ROW * len(rows) + BOTTOM
    return (
        tag(
            "svg",
            tag("title", title),
            tag("desc", description),
            Markup(f"<style>{STYLE}</style>"),
            tag("rect", class_="page", width=WIDTH, height=height),
            tag("text", title, x=16, y=26, class_="title"),
            _legend(series),
            _grid(scale, height, f"{unit}, log scale" if is_log else unit, len(rows)),
            *(_row(row, place, scale, len(series)) for place, row in enumerate(rows)),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH} {height}",
            width=WIDTH,
            height=height,
            role="img",
        )
        + "\n"
    )


def _legend(series: Sequence[str]) -> Markup:
    parts, left = [], 22
    for index, name in enumerate(series):
        parts += [_shape(index, left, 48), tag("text", name, x=left + 12, y=52, class_="faint")]
        left += 36 + 7 * len(name)
    return tag("g", *parts) if len(series) > 1 else joined([tag("text", series[0], x=16, y=52, class_="faint")])


def _grid(scale: Scale, height: int, unit: str, rows: int) -> Markup:
    bottom = height - BOTTOM
    parts = [
        tag("rect", class_="band", x=8, y=TOP + place * ROW, width=WIDTH - 16, height=ROW)
        for place in range(0, rows, 2)
    ]
    for tick in scale.ticks(9):
        left = _left(scale, tick.value)
        parts.append(tag("line", class_="grid", x1=left, x2=left, y1=TOP, y2=bottom))
        parts.append(tag("text", tick.label, class_="faint", x=left, y=bottom + 18, text_anchor="middle"))
    parts.append(tag("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom))
    parts.append(tag("text", unit, class_="faint", x=WIDTH - 12, y=bottom + 36, text_anchor="end"))
    return tag("g", *parts)


def _row(row: Row, place: int, scale: Scale, series: int) -> Markup:
    middle = TOP + place * ROW + ROW / 2
    style = "own" if row.is_own else None
    parts: list[Markup] = [tag("text", row.label, x=LEFT - 14, y=middle + 4.5, text_anchor="end", class_=style)]
    for mark in row.marks:
        top = middle + (mark.series - (series - 1) / 2) * STEP
        says = f"{row.label}: {figures.number(mark.value)}, {figures.number(mark.low)} to {figures.number(mark.high)}"
        ends = _left(scale, mark.low), _left(scale, mark.high)
        parts.append(tag("line", class_=f"spread s{mark.series}", x1=ends[0], x2=ends[1], y1=top, y2=top))
        parts.append(tag("g", tag("title", says), _shape(mark.series, _left(scale, mark.value), top)))
        if series == 1:
            parts.append(tag("text", figures.number(mark.value), x=ends[1] + 9, y=top + 4.5, class_="faint"))
    return tag("g", *parts)


def _shape(series: int, left: float, top: float) -> Markup:
    if series == 0:
        return tag("circle", class_="s0", cx=left, cy=top, r=4.5)
    if series == 1:
        return tag("rect", class_="s1", x=left - 4, y=top - 4, width=8, height=8)
    return tag("path", class_="s2", d=f"M{left:.1f} {top - 5.5:.1f}l5.5 5.5l-5.5 5.5l-5.5 -5.5z")


def _left(scale: Scale, value: float) -> float:
    return LEFT + min(max(scale.at(value), 0.0), 1.0) * (WIDTH - LEFT - RIGHT)
