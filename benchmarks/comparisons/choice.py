"""From single loads to figures: medians of the turns, and the setting that serves a contender best at each point."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from benchmarks.comparisons.records import Comparison, LoadRecord


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one figure over the turns."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        found = list(values)
        return cls(median(found), min(found), max(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One contender in one form with one setting, at a number of connections."""

    model: str
    peer: str
    title: str
    form: str
    kind: str
    setting: str
    connections: int
    requests_per_second: Spread
    cpu_us: Spread
    p50_ms: Spread
    p99_ms: Spread
    is_p99_supported: bool
    rss_bytes: float
    pss_bytes: float
    failed: int
    disturbed: int
    """Turns in which the machine was busy with other work."""


def points(comparison: Comparison) -> list[Point]:
    """Every combination that was measured, in the order of the contenders."""
    titles = {peer.name: peer.title for peer in comparison.peers}
    groups: dict[tuple[object, ...], list[LoadRecord]] = defaultdict(list)
    for load in comparison.loads:
        groups[load.model, load.connections, load.peer, load.form, load.setting].append(load)
    order = {name: place for place, name in enumerate(titles)}
    models = {name: place for place, name in enumerate(comparison.models)}
    found = [_point(titles[group[0].peer], group) for group in groups.values()]
    return sorted(found, key=lambda each: (models[each.model], each.connections, order[each.peer]))


def best(candidates: Iterable[Point]) -> list[Point]:
    """Of each contender, form and number of connections the setting with the most requests per second."""
    groups: dict[tuple[object, ...], list[Point]] = defaultdict(list)
    for point in candidates:
        groups[point.model, point.connections, point.peer, point.form].append(point)
    return [max(group, key=lambda each: each.requests_per_second.median) for group in groups.values()]


def _point(title: str, loads: list[LoadRecord]) -> Point:
    first = loads[0]
    return Point(
        model=first.model,
        peer=first.peer,
        title=title,
        form=first.form,
        kind=first.kind,
        setting=first.setting,
        connections=first.connections,
        requests_per_second=Spread.of(load.requests_per_second for load in loads),
        cpu_us=Spread.of(load.cpu_us for load in loads),
        p50_ms=Spread.of(load.p50_ms for load in loads),
        p99_ms=Spread.of(load.p99_ms for load in loads),
        is_p99_supported=all(load.is_p99_supported for load in loads),
        rss_bytes=median(load.rss_bytes for load in loads),
        pss_bytes=median(load.pss_bytes for load in loads),
        failed=sum(load.failed for load in loads),
        disturbed=sum(not load.is_quiet for load in loads),
    )


def lasting_setting(group: Iterable[Point]) -> Point:
    """Of one contender's points, the one at the most connections; of several such, the fastest. Its setting is the one
    that somebody would leave in place."""
    return max(group, key=lambda each: (each.connections, each.requests_per_second.median))


def engine_limits(comparison: Comparison, model: str) -> dict[int, Spread]:
    """What the engine did by itself, by batch size."""
    rates: dict[int, list[float]] = defaultdict(list)
    for record in comparison.engine:
        if record.model == model:
            rates[record.batch_size].append(record.inferences_per_second)
    return {size: Spread.of(found) for size, found in rates.items()}
