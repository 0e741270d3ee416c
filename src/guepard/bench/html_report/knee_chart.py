"""Throughput against latency over several runs: where the line turns up is where the server is full."""

from guepard.bench import figures
from guepard.bench.html_report.markup import Markup, table
from guepard.bench.html_report.scales import Linear, Log
from guepard.bench.html_report.svg_chart import Chart, Key, figure
from guepard.bench.html_report.time_charts import latency_scale
from guepard.bench.reading import asked_rate, run_state
from guepard.measure.figures import percentile_text
from guepard.measure.results import Document, Run


def knee_chart(document: Document, name: str) -> Markup | None:
    """One mark a run; None with fewer than two different loads, or where runs are of two targets."""
    runs = sorted((run for run in document.runs if run.latency.count), key=asked_rate)
    if len({(run.load.rate, run.load.concurrency) for run in runs}) < 2 or len(document.targets) > 1:
        return None
    percent = document.slo.percent if document.slo else 99.0
    tail = percentile_text(percent)
    lines = [(50.0, "s1", "p50")] if percent == 50.0 else [(50.0, "s1", "p50"), (percent, "s3", tail)]
    values = [value for at, _, _ in lines for run in runs if (value := _at(run, at)) is not None]
    if not values:
        return None
    if document.slo is not None:
        values.append(document.slo.limit_ms)
    y = latency_scale(values)
    rates = [run.throughput.value for run in runs]
    edge = document.edge
    if edge is not None and edge.rate is not None:
        rates += [end for end in (edge.rate.value, edge.rate.high) if end is not None]
    x = Linear(0, max(rates))
    unit = "ms, log scale" if isinstance(y, Log) else "ms"
    chart = Chart(name, "Throughput against latency", x, y, x_label="successes/s", y_label=unit, height=340)
    if edge is not None and edge.rate is not None:
        if edge.rate.low is not None and edge.rate.high is not None:
            chart.shade(edge.rate.low, edge.rate.high, "found", "95 % interval of the edge")
        chart.upright(edge.rate.value, "found", f"edge, {figures.number(edge.rate.value, 4)}/s")
    if document.slo is not None:
        chart.level(document.slo.limit_ms, "slo", f"SLO, {tail} {figures.plain(document.slo.limit_ms)} ms")
    for at, style, label in lines:
        points = [(run.throughput.value, _at(run, at)) for run in runs]
        chart.line(points, style, label)
        for run, (rate, value) in zip(runs, points, strict=True):
            if value is not None:
                state = run_state(document, run)
                look = f"{style} hollow" if state == "missed" else style
                chart.dot(rate, value, look, mark="cross" if state == "INVALID" else "dot")
    states = {run_state(document, run) for run in runs}
    if "missed" in states:
        chart.explain(Key(f"{lines[-1][1]} hollow", "missed the SLO", "dot"))
    if "INVALID" in states:
        chart.explain(Key("s6", "INVALID run", "cross"))
    width = (x.high - x.low) / 120
    for run in runs:
        rate = run.throughput.value
        says = [run.name, f"asked {figures.plain(asked_rate(run), 4)}/s, done {figures.number(rate, 4)}/s"]
        says += [f"{label} {figures.number(_at(run, at))} ms" for at, _, label in lines]
        chart.zone(rate - width, rate + width, "\n".join(says))
    head = ("run", "asked/s", "done/s", *(f"{label}, ms" for _, _, label in lines))
    rows = [
        (run.name, figures.plain(asked_rate(run), 4), figures.number(run.throughput.value, 4),
         *(figures.number(_at(run, at), 4) for at, _, _ in lines))
        for run in runs
    ]  # fmt: skip
    data = table(
        head, rows, caption="Throughput against latency", classes=[None, *["n"] * 4][: len(head)], class_="data"
    )
    return figure(chart, "Each mark is a run. Right of the knee more load brings only more waiting.", data)


def _at(run: Run, percent: float) -> float | None:
    each = run.latency.at(percent)
    return each.value_ms if each else None
