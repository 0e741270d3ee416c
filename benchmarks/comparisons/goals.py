"""What Guepard wants to be beside its best peer, and whether it is."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.comparisons.choice import Point, points, settled
from benchmarks.comparisons.records import Comparison

OWN, OWN_AUTO = OWNS = "guepard", "guepard_auto"
MODEL = "mlp"


@dataclass(frozen=True, slots=True)
class Goal:
    """Guepard's figure over that of the best peer: whichever peer and setting has the lowest there."""

    name: str
    limit: float
    own: Point
    peer: Point
    ratio: float
    unit: str
    own_value: float
    peer_value: float
    is_least: bool = False
    """`limit` is the least that is wanted, not the most."""

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.limit if self.is_least else self.ratio <= self.limit

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.ratio:.2f} × {self.peer.title} ({self.peer.form}, {self.peer.setting}), "
            f"wanted at {'least' if self.is_least else 'most'} {self.limit:g}: {'met' if self.is_met else 'NOT met'}"
        )


@dataclass(frozen=True, slots=True)
class _Wish:
    name: str
    limit: float
    form: str
    """Guepard's."""
    kind: str
    connections: tuple[int, ...]
    unit: str
    value: Callable[[Point], float]
    model: str = MODEL
    own: str = OWN
    is_least: bool = False


def _cpu(point: Point) -> float:
    return point.cpu_us.median


def _p50(point: Point) -> float:
    return point.p50_ms.median


def _rate(point: Point) -> float:
    return point.requests_per_second.median


WISHES = (
    _Wish("CPU per request, JSON", 0.4, "V2 JSON", "json", (1, 8, 64), "µs", _cpu),
    _Wish("CPU per request, binary", 0.5, "V2 binary", "binary", (1, 8, 64), "µs", _cpu),
    _Wish("p50, JSON", 0.55, "V2 JSON", "json", (1,), "ms", _p50),
    _Wish("p50, binary", 0.55, "V2 binary", "binary", (1,), "ms", _p50),
    _Wish("MiniLM, engine: auto on AMX", 3.5, "V2 binary", "binary", (8,), "/s", _rate, "minilm", OWN_AUTO, True),
    _Wish("ResNet-50, engine: auto on AMX", 4.0, "V2 binary", "binary", (8,), "/s", _rate, "resnet50", OWN_AUTO, True),
)


def goals(comparison: Comparison) -> list[Goal]:
    """Those for which both sides were measured."""
    found = []
    measured = settled(points(comparison))
    for wish in WISHES:
        for connections in wish.connections:
            at = [
                point
                for point in measured
                if (point.model, point.connections, point.kind) == (wish.model, connections, wish.kind)
            ]
            own = [point for point in at if point.peer == wish.own and point.form == wish.form]
            peers = [point for point in at if point.peer not in OWNS]
            if own and peers:
                peer = (max if wish.is_least else min)(peers, key=wish.value)
                mine, theirs = wish.value(own[0]), wish.value(peer)
                name = f"{wish.name}, {connections} connection{'s' * (connections > 1)}"
                found.append(
                    Goal(name, wish.limit, own[0], peer, mine / theirs, wish.unit, mine, theirs, wish.is_least)
                )
    return found
