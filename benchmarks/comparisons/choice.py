"""From single loads to figures: medians of the turns, and the setting that serves a contender best at each point."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from benchmarks.comparisons.records import Comparison, LoadRecord

NEAR = 0.1
"""How much worse than the best a setting may be in the first turn, and still be measured in the others."""


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
    turns: int


class Wanted(NamedTuple):
    """A load that is worth being made."""

    model: str
    peer: str
    setting: str
    form: str
    connections: int


def points(comparison: Comparison) -> list[Point]:
    """Every combination that was measured, in the order of the contenders."""
    titles = {peer.name: peer.title for peer in comparison.peers}
    order = {name: place for place, name in enumerate(titles)}
    models = {name: place for place, name in enumerate(comparison.models)}
    found = points_of(comparison.loads, titles)
    return sorted(found, key=lambda each: (models[each.model], each.connections, order[each.peer]))


def points_of(loads: Iterable[LoadRecord], titles: Mapping[str, str]) -> list[Point]:
    """The same in no order."""
    groups: dict[tuple[object, ...], list[LoadRecord]] = defaultdict(list)
    for load in loads:
        groups[load.model, load.connections, load.peer, load.form, load.setting].append(load)
    return [_point(titles[group[0].peer], group) for group in groups.values()]


def best(candidates: Iterable[Point]) -> list[Point]:
    """Of each contender, form and number of connections the setting with the most requests per second."""
    return [max(group, key=lambda each: each.requests_per_second.median) for group in _rivals(candidates)]


def settled(candidates: Iterable[Point]) -> list[Point]:
    """Without settings that were given up after fewer turns than their rivals: one lucky turn is no figure."""
    return [
        point for group in _rivals(candidates) for point in group if point.turns == max(rival.turns for rival in group)
    ]


def promising(candidates: Iterable[Point]) -> set[Wanted]:
    """Where a setting is the best of its contender in some figure, or near it: worth another turn."""
    found = set()
    for group in _rivals(candidates):
        rate = max(each.requests_per_second.median for each in group)
        cpu = min(each.cpu_us.median for each in group)
        p50 = min(each.p50_ms.median for each in group)
        for each in group:
            if (
                each.requests_per_second.median >= rate * (1 - NEAR)
                or each.cpu_us.median <= cpu * (1 + NEAR)
                or each.p50_ms.median <= p50 * (1 + NEAR)
            ):
                found.add(Wanted(each.model, each.peer, each.setting, each.form, each.connections))
    return found


def _rivals(candidates: Iterable[Point]) -> list[list[Point]]:
    """Settings of the same contender in the same form at the same number of connections."""
    groups: dict[tuple[object, ...], list[Point]] = defaultdict(list)
    for point in candidates:
        groups[point.model, point.connections, point.peer, point.form].append(point)
    return list(groups.values())


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
        turns=len(loads),
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
