"""Where a request's time went, as the server tells it, and what nobody explains."""

from guepard.bench import figures
from guepard.bench.html_report.markup import Markup, table
from guepard.bench.html_report.scales import Linear
from guepard.bench.html_report.svg_chart import Chart, Key, figure
from guepard.measure.results import Run

_STYLES = 8
_UNEXPLAINED = "unexplained"


def phases_chart(run: Run, name: str) -> Markup | None:
    """One bar as long as the mean latency; None where no phase is known."""
    if run.server is None or not run.server.phases:
        return None
    parts: list[tuple[str, float, str, str]] = [
        (figures.one_line(phase.name, 60), max(phase.mean_ms, 0.0), f"s{index % _STYLES + 1}", phase.source)
        for index, phase in enumerate(run.server.phases)
    ]
    known = sum(ms for _, ms, _, _ in parts)
    rest = run.server.unexplained_ms
    if rest is not None:
        parts.append((_UNEXPLAINED, max(rest, 0.0), "unexplained", ""))
    whole = max(sum(ms for _, ms, _, _ in parts), run.latency.mean_ms)
    if whole <= 0:
        return None
    chart = Chart(
        name, "Where the time went", Linear(0, whole, is_rounded=False), Linear(0, 1), x_label="ms, mean of a request",
        y_label="", height=130, left=14, y_marks=0,
    )  # fmt: skip
    start = 0.0
    for label, ms, style, source in parts:
        chart.bar(start, start + ms, 0.1, 0.9, style)
        says = f"{label}\n{figures.number(ms)} ms, {figures.percent(ms / whole)}"
        chart.zone(start, start + ms, f"{says}\nfrom {source}" if source else says)
        chart.explain(Key(style, label, "bar"))
        start += ms
    shown = [*parts[:-1], (_UNEXPLAINED, rest, "", "")] if rest is not None else parts
    rows = [
        (label, figures.number(ms), figures.percent(ms / run.latency.mean_ms if run.latency.mean_ms else None), source)
        for label, ms, _, source in shown
        if ms is not None
    ]
    remark = None
    if known > run.latency.mean_ms:
        remark = "The phases add up to more than the latency: they overlap, or cover requests outside the window."
    data = table(
        ("phase", "mean, ms", "share", "read from"),
        rows,
        caption="Phases of the server",
        classes=[None, "n", "n"],
        class_="data",
    )
    return figure(
        chart,
        "The server's own account of a request. What it does not account for is network, kernel, client, and queues "
        "that nobody counts.",
        data,
        remark,
    )
