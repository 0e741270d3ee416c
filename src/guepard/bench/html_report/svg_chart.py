"""Charts as inline SVG, drawn here so that the page needs no script.

A chart has a name and a description for those who cannot see it, marks that tell series apart by dashes as well as by
colour, and zones whose titles a browser shows as it is pointed at. Colours are classes, so that the page's style
decides them, in light, in dark and on paper.

      ┌ unit of y
      │ top
      │    ┌──────────────────────┐
      │left│ plot                 │right
      │    └──────────────────────┘
      │ bottom: marks, then the label of x

Source: names and descriptions, W3C SVG Accessibility API Mappings; tables beside charts, WCAG 2.2, 1.1.1 and 1.4.1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from guepard.bench.html_report.markup import Markup, tag
from guepard.bench.html_report.scales import Scale

WIDTH = 560
HEIGHT = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 18, 30, 46

Point = tuple[float, float | None]


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend. `mark` is what it looks like: line, area, bar, shade, dot or cross."""

    style: str
    label: str
    mark: str = "line"


class Chart:
    """Parts are drawn in the order in which they are added. `name` is unique on the page: ids are made of it."""

    def __init__(
        self,
        name: str,
        title: str,
        x: Scale,
        y: Scale,
        *,
        x_label: str,
        y_label: str,
        height: int = HEIGHT,
        left: int = _LEFT,
        y_marks: int = 7,
    ) -> None:
        self.name = name
        self.title = title
        self.x = x
        self.y = y
        self._x_label = x_label
        self._y_label = y_label
        self._height = height
        self._left = left
        self._y_marks = y_marks
        self._parts: list[Markup] = []
        self._zones: list[Markup] = []
        self._keys: list[Key] = []

    def left_of(self, value: float) -> float:
        """Where a value of x lies, in the chart's own units."""
        return self._left + min(max(self.x.at(value), 0.0), 1.0) * (WIDTH - self._left - _RIGHT)

    def top_of(self, value: float) -> float:
        return _TOP + (1 - min(max(self.y.at(value), 0.0), 1.0)) * (self._height - _TOP - _BOTTOM)

    def line(self, points: Iterable[Point], style: str, label: str | None = None) -> None:
        """Through the points, with a gap where there is no value."""
        data, is_new = [], True
        for x, y in points:
            if y is None:
                is_new = True
                continue
            data.append(f"{'M' if is_new else 'L'}{self.left_of(x):.1f} {self.top_of(y):.1f}")
            is_new = False
        # A lone point between gaps has no length; round caps make it a dot.
        whole = "".join(f"{each}h0" if self._is_lone(data, index) else each for index, each in enumerate(data))
        if whole:
            self._parts.append(tag("path", d=whole, class_=f"line {style}"))
        self._explain(style, label, "line")

    @staticmethod
    def _is_lone(data: Sequence[str], index: int) -> bool:
        return data[index][0] == "M" and (index + 1 == len(data) or data[index + 1][0] == "M")

    def area(self, points: Sequence[tuple[float, float, float]], style: str, label: str | None = None) -> None:
        """Between a lower and an upper value at each x."""
        if points:
            upper = [f"{self.left_of(x):.1f} {self.top_of(high):.1f}" for x, _, high in points]
            lower = [f"{self.left_of(x):.1f} {self.top_of(low):.1f}" for x, low, _ in reversed(points)]
            self._parts.append(tag("path", d="M" + "L".join(upper + lower) + "Z", class_=f"area {style}"))
        self._explain(style, label, "area")

    def bar(self, start: float, end: float, low: float, high: float, style: str) -> None:
        """From `start` to `end` along x, from `low` to `high` along y; what is not nothing is at least seen."""
        left, right = self.left_of(start), self.left_of(end)
        top, bottom = self.top_of(high), self.top_of(low)
        if high > low:
            self._parts.append(
                tag(
                    "rect", x=left, y=min(top, bottom - 0.75), width=max(right - left, 0.5),
                    height=max(bottom - top, 0.75), class_=f"bar {style}",
                )
            )  # fmt: skip

    def dot(self, x: float, y: float, style: str, *, mark: str = "dot") -> None:
        """A round mark, or a cross."""
        left, top = self.left_of(x), self.top_of(y)
        if mark == "cross":
            d = f"M{left - 4:.1f} {top - 4:.1f}l8 8m0 -8l-8 8"
            self._parts.append(tag("path", d=d, class_=f"cross {style}"))
        else:
            self._parts.append(tag("circle", cx=left, cy=top, r=4, class_=f"dot {style}"))

    def shade(self, start: float, end: float, style: str, label: str | None = None) -> None:
        """A stretch of x, over the whole height."""
        left, right = self.left_of(start), self.left_of(end)
        if right - left > 0.5:
            height = self._height - _TOP - _BOTTOM
            self._parts.append(tag("rect", x=left, y=_TOP, width=right - left, height=height, class_=f"shade {style}"))
        self._explain(style, label, "shade")

    def upright(self, x: float, style: str, label: str | None = None) -> None:
        place = self.left_of(x)
        self._parts.append(tag("line", x1=place, x2=place, y1=_TOP, y2=self._height - _BOTTOM, class_=f"rule {style}"))
        self._explain(style, label, "line")

    def level(self, y: float, style: str, label: str | None = None) -> None:
        place = self.top_of(y)
        self._parts.append(tag("line", x1=self._left, x2=WIDTH - _RIGHT, y1=place, y2=place, class_=f"rule {style}"))
        self._explain(style, label, "line")

    def words(self, x: float, y: float, content: str, *, anchor: str = "middle", style: str = "word") -> None:
        """Text at a place in the plot."""
        left, top = self.left_of(x), self.top_of(y)
        self._parts.append(tag("text", content, x=left, y=top, text_anchor=anchor, class_=style))

    def zone(self, start: float, end: float, says: str) -> None:
        """What is shown when the stretch of x is pointed at."""
        left, right = self.left_of(start), self.left_of(end)
        height = self._height - _TOP - _BOTTOM
        self._zones.append(
            tag("rect", tag("title", says), x=left, y=_TOP, width=max(right - left, 1), height=height, class_="zone")
        )

    def explain(self, *keys: Key) -> None:
        """Entries of the legend for parts that were drawn without a label."""
        self._keys += keys

    def _explain(self, style: str, label: str | None, mark: str) -> None:
        if label:
            self._keys.append(Key(style, label, mark))

    def svg(self, description: str) -> Markup:
        """The drawing. `description` says in a sentence what it shows."""
        title, words = f"{self.name}-title", f"{self.name}-words"
        return tag(
            "svg",
            tag("title", self.title, id=title),
            tag("desc", description, id=words),
            self._grid(),
            tag("g", *self._parts, aria_hidden="true"),
            tag("g", *self._zones, class_="zones"),
            viewBox=f"0 0 {WIDTH} {self._height}",
            role="img",
            aria_labelledby=f"{title} {words}",
        )

    def _grid(self) -> Markup:
        right, bottom = WIDTH - _RIGHT, self._height - _BOTTOM
        parts = []
        for tick in self.y.ticks(self._y_marks) if self._y_marks else ():
            place = self.top_of(tick.value)
            parts.append(tag("line", x1=self._left, x2=right, y1=place, y2=place, class_="grid"))
            parts.append(tag("text", tick.label, x=self._left - 7, y=place + 4, text_anchor="end", class_="tick"))
        for tick in self.x.ticks(7):
            place = self.left_of(tick.value)
            parts.append(tag("line", x1=place, x2=place, y1=bottom, y2=bottom + 4, class_="axis"))
            parts.append(tag("text", tick.label, x=place, y=bottom + 18, text_anchor="middle", class_="tick"))
        parts.append(tag("line", x1=self._left, x2=right, y1=bottom, y2=bottom, class_="axis"))
        parts.append(tag("text", self._y_label, x=4, y=14, class_="label"))
        parts.append(tag("text", self._x_label, x=right, y=self._height - 6, text_anchor="end", class_="label"))
        return tag("g", *parts, aria_hidden="true")

    def legend(self) -> Markup | None:
        """What the marks mean; None where there is nothing to tell apart."""
        if not self._keys:
            return None
        return tag("ul", *(tag("li", _swatch(key), " ", key.label) for key in self._keys), class_="legend")


def figure(chart: Chart, description: str, data: Markup | None = None, remark: str | None = None) -> Markup:
    """The chart with its caption, legend and the same figures as a table, folded."""
    return tag(
        "figure",
        tag("figcaption", tag("h3", chart.title), tag("p", description)),
        chart.svg(description),
        chart.legend(),
        tag("p", remark, class_="remark") if remark else None,
        tag("details", tag("summary", "The same as a table"), data) if data else None,
    )


def _swatch(key: Key) -> Markup:
    if key.mark == "dot":
        mark = tag("circle", cx=12, cy=6, r=4, class_=f"dot {key.style}")
    elif key.mark == "cross":
        mark = tag("path", d="M8 2l8 8m0 -8l-8 8", class_=f"cross {key.style}")
    elif key.mark in ("area", "bar", "shade"):
        mark = tag("rect", x=2, y=1, width=20, height=10, class_=f"{key.mark} {key.style}")
    else:
        mark = tag("path", d="M1 6h22", class_=f"line {key.style}")
    return tag("svg", mark, viewBox="0 0 24 12", class_="swatch", aria_hidden="true")
