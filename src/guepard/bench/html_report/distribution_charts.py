"""How latencies are spread: percentile curves with their bands, and histograms."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

import numpy as np

from guepard.bench import figures
from guepard.bench.html_report.markup import Markup, table
from guepard.bench.html_report.scales import Linear, Log, Percentiles
from guepard.bench.html_report.svg_chart import Chart, Key, figure
from guepard.bench.html_report.time_charts import latency_scale
from guepard.bench.reading import histogram_or_none
from guepard.measure.figures import percentile_text
from guepard.measure.histogram import Histogram
from guepard.measure.results import Latency, Percentile, Run

_PLACES = 160
_BINS = 48
_SAMPLES_BEYOND = 10.0
_ROWS = (0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999)


@dataclass(frozen=True, slots=True)
class Curve:
    """A distribution on a percentile chart. `percentiles` are those that were worked out, with their intervals."""

    label: str
    style: str
    histogram: Histogram
    effective_count: float
    percentiles: tuple[Percentile, ...] = ()

    @classmethod
    def of(cls, latency: Latency | None, label: str, style: str) -> "Curve | None":
        histogram = histogram_or_none(latency)
        if latency is None or histogram is None:
            return None
        return cls(label, style, histogram, latency.effective_count, latency.percentiles)

    def ms(self, share: float) -> float:
        return self.histogram.quantile(min(max(share, 0.0), 1.0)) / 1e6

    @property
    def supported(self) -> float:
        """The share up to which samples suffice. Between two percentiles that were judged: ten samples beyond it."""
        told = [each.percent / 100 for each in self.percentiles if each.is_supported]
        untold = [each.percent / 100 for each in self.percentiles if not each.is_supported]
        enough = max(0.0, 1 - _SAMPLES_BEYOND / self.effective_count) if self.effective_count else 0.0
        return min(max([enough, *told]), min(untold, default=1.0))

    def band(self, shares: Sequence[float]) -> list[tuple[float, float, float]]:
        """The 95 % interval at each share up to the supported one; nothing where no percentile has one.

        At the percentiles that were worked out it is theirs. Between them it is as far away in ranks, on the scale
        ln(q / (1 - q)), as it is at its two neighbours.
        """
        known = [
            (each.percent / 100, each.low_ms, each.high_ms)
            for each in self.percentiles
            if each.is_supported and each.low_ms is not None and each.high_ms is not None
        ]
        if not known:
            return []
        at = [_logit(share) for share, _, _ in known]
        below = [_logit(share) - self._place(low) for share, low, _ in known]
        above = [self._place(high) - _logit(share) for share, _, high in known]
        found = []
        for share in shares:
            if 0 < share <= self.supported:
                place = _logit(share)
                low = self.ms(_share(place - float(np.interp(place, at, below))))
                high = self.ms(_share(place + float(np.interp(place, at, above))))
                found.append((share, min(low, self.ms(share)), max(high, self.ms(share))))
        return found

    def _place(self, ms: float) -> float:
        count = self.histogram.count
        below = self.histogram.count_at_or_below(round(ms * 1e6))
        return _logit(min(max(below, 0.5), count - 0.5) / count)


def _logit(share: float) -> float:
    return log(share / (1 - share))


def _share(place: float) -> float:
    return 1 / (1 + exp(-place))


def run_percentiles(run: Run, name: str) -> Markup | None:
    """From the intended and from the real send time."""
    intended = Curve.of(run.latency, "from the intended send time", "s1")
    if intended is None:
        return None
    return percentile_figure(
        _there(Curve.of(run.service, "from the real send time", "s3 under"), intended),
        name,
        "Latency by percentile",
        "How long the slowest share of requests took at least. Where the two lines part, requests left late: "
        "they waited for a connection, or for the generator.",
    )


def stream_percentiles(run: Run, name: str) -> Markup | None:
    """The first piece and the gaps between pieces."""
    curves = _there(Curve.of(run.first, "to the first piece", "s1"), Curve.of(run.between, "between two pieces", "s2"))
    if not curves:
        return None
    description = "Time to the first piece from the intended send time, and between pieces."
    return percentile_figure(curves, name, "Streams by percentile", description)


def generator_percentiles(run: Run, name: str) -> Markup | None:
    """How late requests left, and how long the generator's loop was busy."""
    curves = _there(
        Curve.of(run.generator.send_lag, "send lag", "s1"),
        Curve.of(run.generator.loop_lag, "turn of the loop", "s2"),
    )
    if not curves:
        return None
    return percentile_figure(
        curves,
        name,
        "The generator's own lag",
        "How much later than intended requests were sent, and how long a turn of the generator's loop took. "
        "Both belong to the instrument, not to the server.",
    )


def _there(*curves: Curve | None) -> list[Curve]:
    return [curve for curve in curves if curve is not None]


def percentile_figure(curves: Sequence[Curve], name: str, title: str, description: str) -> Markup:
    """Curves over 1 / (1 - q), each with its band if it has one, and grey where the samples are too few."""
    x = Percentiles(max(curve.histogram.count for curve in curves))
    largest = max(curve.histogram.max_value for curve in curves) / 1e6
    smallest = min(curve.ms(0.01) for curve in curves)
    y = latency_scale([smallest, largest])
    unit = "ms, log scale" if isinstance(y, Log) else "ms"
    chart = Chart(name, title, x, y, x_label="percentile", y_label=unit)
    chart.shade(max(curve.supported for curve in curves), 1.0, "outside", "too few samples to tell")
    banded = ""
    for curve in curves:
        places = [x.share(place / _PLACES) for place in range(_PLACES + 1)]
        own = [share for share in places if share <= 1 - 1 / curve.histogram.count] + [1.0]
        band = [] if curve.style.endswith("under") else curve.band(own)
        banded = banded or curve.style if band else banded
        chart.area(band, curve.style)
        told = [share for share in own if share <= curve.supported]
        chart.line([(share, curve.ms(share)) for share in told], curve.style, curve.label)
        chart.line([(share, curve.ms(share)) for share in [*told[-1:], *own[len(told) :]]], f"{curve.style} unsure")
    if banded:
        chart.explain(Key(banded, "95 % interval", "area"))
    for place in range(40):
        share = x.share((place + 0.5) / 40)
        chart.zone(x.share(place / 40), x.share((place + 1) / 40), _says(curves, share))
    return figure(chart, description, _table(curves, title))


def _says(curves: Sequence[Curve], share: float) -> str:
    lines = [percentile_text(float(f"{share * 100:.6g}"))]
    lines += [f"{curve.label}: {figures.number(curve.ms(share))} ms{_doubt(curve, share)}" for curve in curves]
    return "\n".join(lines)


def _doubt(curve: Curve, share: float) -> str:
    return "" if share <= curve.supported else " (too few samples)"


def _table(curves: Sequence[Curve], title: str) -> Markup:
    most = max(curve.histogram.count for curve in curves)
    rows = [
        (
            percentile_text(round(share * 100, 6)),
            *(f"{figures.number(curve.ms(share), 4)}{_doubt(curve, share)}" for curve in curves),
        )
        for share in _ROWS
        if share <= 1 - 1 / most
    ]
    rows.append(("max", *(figures.number(curve.histogram.max_value / 1e6, 4) for curve in curves)))
    head = ("percentile", *(f"{curve.label}, ms" for curve in curves))
    return table(head, rows, caption=title, classes=[None, *["n"] * len(curves)], class_="data")


def latency_histogram(run: Run, name: str) -> Markup | None:
    """Shares of successes in bins that grow in proportion."""
    histogram = histogram_or_none(run.latency)
    if histogram is None:
        return None
    low, high = max(histogram.min_value, 1) / 1e6, max(histogram.max_value, 1) / 1e6
    x = Log(low, high)
    ratio = (x.high / x.low) ** (1 / _BINS)
    edges = [x.low * ratio**index for index in range(_BINS + 1)]
    below = [histogram.count_at_or_below(round(edge * 1e6)) for edge in edges]
    below[0], below[-1] = 0, histogram.count
    shares = [(end - start) / histogram.count * 100 for start, end in pairwise(below)]
    chart = Chart(
        name,
        "Histogram of latencies",
        x,
        Linear(0, max(shares)),
        x_label="ms, log scale",
        y_label="% of requests",
    )
    for (start, end), share in zip(pairwise(edges), shares, strict=True):
        chart.bar(start, end, 0, share, "s1")
        if share:
            chart.zone(
                start, end, f"{figures.number(start)} to {figures.number(end)} ms\n{figures.percent(share / 100)}"
            )
    for percent, style in ((50.0, "here"), (99.0, "slo")):
        each = run.latency.at(percent)
        if each is not None and each.is_supported:
            chart.upright(each.value_ms, style, percentile_text(percent))
    rows = [
        (f"{figures.number(start)} to {figures.number(end)}", figures.percent(share / 100))
        for (start, end), share in zip(pairwise(edges), shares, strict=True)
        if share
    ]
    data = table(("ms", "share"), rows, caption="Histogram of latencies", classes=["n", "n"], class_="data")
    return figure(chart, "Successes by latency from the intended send time.", data)
