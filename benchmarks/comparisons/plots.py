"""The pictures of the page: which figures they show, and their file names."""

from collections.abc import Callable, Iterable

from benchmarks.comparisons.choice import Point, Spread, best, lasting_setting, points, settled
from benchmarks.comparisons.dot_plot import Mark, Row, dot_plot
from benchmarks.comparisons.goals import OWNS
from benchmarks.comparisons.records import Comparison

OF_TURNS = "Median of the turns; the line is from smallest to largest."
TITLES = {"mlp": "MLP", "minilm": "MiniLM", "resnet50": "ResNet-50"}


def plots(comparison: Comparison) -> dict[str, str]:
    """SVG by file name."""
    chosen = best(settled(points(comparison)))
    found = {}
    for model in comparison.models:
        here = [point for point in chosen if point.model == model]
        if not here:
            continue
        title = TITLES.get(model, model)
        found[f"{model}-rate.svg"] = _by_connections(
            f"{title}: requests per second (more is better)", "requests/s", here, _rate, is_falling=True
        )
        found[f"{model}-cpu.svg"] = _by_connections(
            f"{title}: CPU time of the server per request (less is better)", "µs", here, _cpu, is_falling=False
        )
        for connections in sorted({point.connections for point in here}):
            found[f"{model}-latency-{connections}.svg"] = _latency(title, connections, here)
        found[f"{model}-start.svg"] = _starts(title, model, comparison)
        found[f"{model}-memory.svg"] = _memory(title, here)
    return found


def _rate(point: Point) -> Spread:
    return point.requests_per_second


def _cpu(point: Point) -> Spread:
    return point.cpu_us


def _by_connections(
    title: str, unit: str, here: list[Point], figure: Callable[[Point], Spread], *, is_falling: bool
) -> str:
    counts = sorted({point.connections for point in here})[:3]
    series = [f"{count} connection{'s' * (count > 1)}" for count in counts]
    rows = []
    for (peer, label), group in _by_label(here).items():
        marks = [_mark(counts.index(each.connections), figure(each)) for each in group if each.connections in counts]
        rows.append(Row(label, peer in OWNS, tuple(sorted(marks, key=lambda mark: mark.series))))
    rows.sort(key=lambda row: row.marks[-1].value, reverse=is_falling)
    return dot_plot(title, unit, series, rows, description=OF_TURNS)


def _latency(title: str, connections: int, here: list[Point]) -> str:
    rows = [
        Row(f"{point.title}, {point.form}", point.peer in OWNS, (_mark(0, point.p50_ms), _mark(1, point.p99_ms)))
        for point in sorted(here, key=lambda each: each.p50_ms.median)
        if point.connections == connections
    ]
    name = f"{title}: latency at {connections} connection{'s' * (connections > 1)} (less is better)"
    return dot_plot(name, "ms", ["p50", "p99"], rows, description=OF_TURNS)


def _starts(title: str, model: str, comparison: Comparison) -> str:
    rows = []
    for peer in comparison.peers:
        values = [start.start_s for start in comparison.starts if (start.peer, start.model) == (peer.name, model)]
        if values:
            rows.append(Row(peer.title, peer.name in OWNS, (_mark(0, Spread.of(values)),)))
    rows.sort(key=lambda row: row.marks[0].value)
    words = "Median of all starts; the line is from shortest to longest."
    name = f"{title}: start of the process to the first good answer"
    return dot_plot(name, "s", [words], rows, description=words, is_log=False)


def _memory(title: str, here: list[Point]) -> str:
    rows = []
    for peer, group in _by_peer(here).items():
        held = lasting_setting(group)
        mine = [each for each in group if each.setting == held.setting]
        sizes = [Spread.of(each.pss_bytes / 1e6 for each in mine), Spread.of(each.rss_bytes / 1e6 for each in mine)]
        rows.append(Row(held.title, peer in OWNS, tuple(map(_mark, range(2), sizes))))
    rows.sort(key=lambda row: row.marks[1].value)
    series = ["PSS", "RSS, shared pages once for each process"]
    words = "Of the process tree after a load, with the setting that is best at the most connections."
    return dot_plot(f"{title}: memory", "MB", series, rows, description=words)


def _mark(series: int, spread: Spread) -> Mark:
    return Mark(series, spread.median, spread.low, spread.high)


def _by_label(here: Iterable[Point]) -> dict[tuple[str, str], list[Point]]:
    found: dict[tuple[str, str], list[Point]] = {}
    for point in here:
        found.setdefault((point.peer, f"{point.title}, {point.form}"), []).append(point)
    return found


def _by_peer(here: Iterable[Point]) -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    for point in here:
        found.setdefault(point.peer, []).append(point)
    return found
