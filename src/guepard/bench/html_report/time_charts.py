"""What happened when: latency, throughput, errors and requests in flight by slices of time."""

from collections.abc import Callable, Sequence

from guepard.bench import figures
from guepard.bench.html_report.markup import Markup, table
from guepard.bench.html_report.scales import Linear, Log, Scale
from guepard.bench.html_report.svg_chart import Chart, Key, figure
from guepard.measure.results import Run, Slice, Slo

_SERIES: tuple[tuple[str, str, Callable[[Slice], float | None]], ...] = (
    ("s1", "p50", lambda piece: piece.p50_ms),
    ("s2", "p90", lambda piece: piece.p90_ms),
    ("s3", "p99", lambda piece: piece.p99_ms),
    ("s4", "max", lambda piece: piece.max_ms),
)
_KINDS = 6
_OTHER = "other kinds"
_SPREAD_FOR_LOG = 20
_ROWS = 400
_ZONES = 300


def latency_over_time(run: Run, slo: Slo | None, name: str) -> Markup | None:
    """p50, p90, p99 and the maximum of each slice; None where no request succeeded."""
    values = [value for _, _, of in _SERIES for piece in run.slices if (value := of(piece)) is not None]
    if not values:
        return None
    if slo is not None:
        values.append(slo.limit_ms)
    scale = latency_scale(values)
    chart = Chart(name, "Latency over time", _time(run), scale, x_label="seconds", y_label=_unit("ms", scale))
    _window(chart, run)
    if slo is not None:
        chart.level(slo.limit_ms, "slo", f"SLO, {figures.plain(slo.limit_ms)} ms")
    for style, label, of in _SERIES:
        points = [(_middle(piece), of(piece)) for piece in run.slices]
        if any(value is not None for _, value in points):
            chart.line(points, style, label)
    _zones(chart, run.slices, _says_latency)
    rows = [(_when(piece), *(figures.number(of(piece)) for _, _, of in _SERIES)) for piece in run.slices]
    return figure(
        chart,
        "Latency of successes by the time at which they were due, from the intended send time.",
        _data("Latency in ms by slice of time", ("seconds", *(label for _, label, _ in _SERIES)), rows),
    )


def throughput_over_time(run: Run, name: str) -> Markup | None:
    """What was offered and what succeeded, in requests per second."""
    if not run.slices:
        return None
    offered = [(_middle(piece), _per_second(piece, piece.offered)) for piece in run.slices]
    succeeded = [(_middle(piece), _per_second(piece, piece.succeeded)) for piece in run.slices]
    scale = Linear(0, max(rate for _, rate in offered + succeeded))
    chart = Chart(name, "Throughput over time", _time(run), scale, x_label="seconds", y_label="requests/s")
    _window(chart, run)
    chart.line(offered, "s6 under", "offered")
    chart.line(succeeded, "s1", "succeeded")
    _zones(chart, run.slices, _says_throughput)
    rows = [
        (_when(piece), *(figures.number(_per_second(piece, count)) for count in (piece.offered, piece.succeeded)))
        for piece in run.slices
    ]
    return figure(
        chart,
        "Requests per second that were due, and that ended in success.",
        _data("Requests per second by slice of time", ("seconds", "offered", "succeeded"), rows),
    )


def in_flight_over_time(run: Run, name: str) -> Markup | None:
    """Requests under way at the end of each slice."""
    if not run.slices:
        return None
    points = [(piece.end_s, float(piece.in_flight)) for piece in run.slices]
    scale = Linear(0, max(5.0, *(count for _, count in points)))
    chart = Chart(name, "Requests in flight", _time(run), scale, x_label="seconds", y_label="requests")
    _window(chart, run)
    chart.line([(x, y) for x, y in points], "s1")
    _zones(chart, run.slices, lambda piece: f"{piece.end_s:.4g} s\n{figures.count(piece.in_flight)} in flight")
    rows = [(f"{piece.end_s:.4g}", figures.count(piece.in_flight)) for piece in run.slices]
    return figure(
        chart,
        "Sent and not yet answered. A line that climbs is a server that does not keep up.",
        _data("Requests in flight by time", ("at second", "in flight"), rows),
    )


def errors_over_time(run: Run, name: str) -> Markup | None:
    """Failures by kind, stacked; None where there were none."""
    totals: dict[str, int] = {}
    for piece in run.slices:
        for kind, count in piece.failed.items():
            totals[kind] = totals.get(kind, 0) + count
    ordered = sorted((kind for kind, count in totals.items() if count), key=lambda kind: -totals[kind])
    if not ordered:
        return None
    kinds = ordered if len(ordered) <= _KINDS else ordered[: _KINDS - 1]
    rest = ordered[len(kinds) :]
    names = [*kinds, _OTHER] if rest else kinds

    def counts(piece: Slice) -> list[int]:
        own = [piece.failed.get(kind, 0) for kind in kinds]
        return [*own, sum(piece.failed.get(kind, 0) for kind in rest)] if rest else own

    scale = Linear(0, max(_per_second(piece, sum(counts(piece))) for piece in run.slices))
    chart = Chart(name, "Errors over time", _time(run), scale, x_label="seconds", y_label="errors/s")
    _window(chart, run)
    for piece in run.slices:
        below = 0.0
        for index, count in enumerate(counts(piece)):
            height = _per_second(piece, count)
            chart.bar(piece.start_s, piece.end_s, below, below + height, _error_style(index))
            below += height
    chart.explain(*(Key(_error_style(index), figures.one_line(kind, 60), "bar") for index, kind in enumerate(names)))
    _zones(
        chart,
        run.slices,
        lambda piece: "\n".join(
            [
                f"{_when(piece)} s",
                *(f"{figures.one_line(kind, 60)}: {count}" for kind, count in zip(names, counts(piece), strict=True)),
            ]
        ),
    )
    rows = [(_when(piece), *map(figures.count, counts(piece))) for piece in run.slices]
    return figure(
        chart,
        "Requests that ended in failure, by kind. Their latencies are in no other figure.",
        _data("Failed requests by slice of time", ("seconds", *(figures.one_line(kind, 60) for kind in names)), rows),
    )


def latency_scale(values: Sequence[float]) -> Scale:
    """From 0 where the values are near one another, logarithmic where a line from 0 would hide the small ones."""
    low, high = min((value for value in values if value > 0), default=1.0), max(values)
    return Log(low, high) if high > low * _SPREAD_FOR_LOG else Linear(0, high)


def _unit(unit: str, scale: Scale) -> str:
    return f"{unit}, log scale" if isinstance(scale, Log) else unit


def _error_style(index: int) -> str:
    return f"e{index + 1}"


def _time(run: Run) -> Scale:
    return Linear(0, run.slices[-1].end_s, is_rounded=False)


def _window(chart: Chart, run: Run) -> None:
    """The warm-up and what came after the window in grey; the measured window between two rules."""
    if run.window.start_s > run.slices[0].start_s:
        chart.shade(run.slices[0].start_s, run.window.start_s, "outside", "not measured: warm-up")
        chart.upright(run.window.start_s, "edge")
    if run.window.end_s < run.slices[-1].end_s - 1e-9:
        had_warm_up = run.window.start_s > run.slices[0].start_s
        chart.shade(
            run.window.end_s, run.slices[-1].end_s, "outside", None if had_warm_up else "not measured: after the window"
        )
        chart.upright(run.window.end_s, "edge")


def _zones(chart: Chart, slices: Sequence[Slice], says: Callable[[Slice], str]) -> None:
    if len(slices) <= _ZONES:
        for piece in slices:
            chart.zone(piece.start_s, piece.end_s, says(piece))


def _says_latency(piece: Slice) -> str:
    lines = [f"{_when(piece)} s"]
    lines += [f"{label} {figures.number(of(piece))} ms" for _, label, of in reversed(_SERIES)]
    return "\n".join(lines)


def _says_throughput(piece: Slice) -> str:
    return (
        f"{_when(piece)} s\noffered {figures.number(_per_second(piece, piece.offered))}/s\n"
        f"succeeded {figures.number(_per_second(piece, piece.succeeded))}/s"
    )


def _data(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """All rows up to a number that a page can bear; the embedded result has every one."""
    if len(rows) > _ROWS:
        step = -(-len(rows) // _ROWS)
        rows, caption = rows[::step], f"{caption}: one in {step}, the embedded result has all"
    return table(head, rows, caption=caption, classes=["n"] * len(head), class_="data")


def _per_second(piece: Slice, count: int) -> float:
    return count / (piece.end_s - piece.start_s) if piece.end_s > piece.start_s else 0.0


def _middle(piece: Slice) -> float:
    return (piece.start_s + piece.end_s) / 2


def _when(piece: Slice) -> str:
    return f"{piece.start_s:.4g} to {piece.end_s:.4g}"
