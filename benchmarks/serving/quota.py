"""Does the default configuration get out of one CPU what the best of hand-made ones does?

Every server runs in a cgroup of its own with a quota of one CPU, on all cores, as a container would. Against the
default stand one and two instances, on threads and on the event loop, under full load of the MLP (which is all server)
and of MiniLM (which is all engine). All are up and take turns. A period is a tenth of a second; a throttled one is one
in which the group was stopped until the next.
"""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.models import MINILM, MLP, ReferenceModel
from benchmarks.serving import launch
from benchmarks.serving.contender import Contender
from benchmarks.serving.cpu_quota import CpuQuota, NoQuotaError, cpu_quota
from benchmarks.serving.effort import Effort
from benchmarks.serving.load import run_load
from benchmarks.serving.payload import Payload, binary_payload, json_payload
from benchmarks.serving.report import Answer, Figure, at_least, at_most
from benchmarks.serving.sample import LoadSample, sample_load

CPUS = 1.0
CONNECTIONS = 16
DEFAULT = "default"
TUNED: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "1 on a thread": {"count": 1, "execution": "thread"},
    "2 on threads": {"count": 2, "execution": "thread"},
    "1 on the loop": {"count": 1, "execution": "inline"},
}
"""`instance_group` of each side. Two instances on one loop could not run at once, and are refused."""
SLOW_SECONDS = 4
TARGET = at_least(90)


@dataclass(frozen=True, slots=True)
class Side:
    """One server in its group."""

    server: Contender
    group: CpuQuota


@dataclass(frozen=True, slots=True)
class Turn:
    model: str
    load: LoadSample
    periods: int
    throttled: int

    def as_dict(self) -> dict[str, Any]:
        return self.load.as_dict() | {"model": self.model, "periods": self.periods, "throttled": self.throttled}


def measure(effort: Effort) -> Answer:
    try:
        with cpu_quota(CPUS):
            pass
    except NoQuotaError as error:
        print(f"quota: cannot be measured here: {error}", file=sys.stderr, flush=True)
        return Answer("quota", [Figure(f"quota: cannot be measured here: {error}", 0, "")], [])
    turns = [
        *measure_model(MLP, json_payload(MLP), effort.turns, effort.turn_seconds),
        *measure_model(MINILM, binary_payload(MINILM), min(2, effort.turns), SLOW_SECONDS),
    ]
    return Answer("quota", figures(turns), [turn.as_dict() for turn in turns])


def measure_model(model: ReferenceModel, payload: Payload, repeats: int, seconds: int) -> list[Turn]:
    turns = []
    with ExitStack() as stack:
        sides = {}
        for label, group in TUNED.items():
            print(f"quota: starting {model.name}, {label}", file=sys.stderr, flush=True)
            entry = {"name": model.name, "path": str(model.path()), **({"instance_group": group} if group else {})}
            quota = stack.enter_context(cpu_quota(CPUS))
            sides[label] = Side(stack.enter_context(launch.configured([entry], prefix=quota.prefix)), quota)
            run_load(sides[label].server.port, payload, CONNECTIONS, 1)
        for repeat in range(repeats):
            for label, side in sides.items():
                print(f"quota: {model.name}, run {repeat + 1}, {label}", file=sys.stderr, flush=True)
                turns.append(sample(model, label, side, payload, seconds))
    return turns


def sample(model: ReferenceModel, label: str, side: Side, payload: Payload, seconds: int) -> Turn:
    periods, throttled = side.group.periods()
    load = sample_load(label, side.server, payload, CONNECTIONS, seconds, steady=model is MINILM)
    periods_after, throttled_after = side.group.periods()
    return Turn(model.name, load, periods_after - periods, throttled_after - throttled)


def figures(turns: list[Turn]) -> list[Figure]:
    told = []
    for model in (MLP.name, MINILM.name):
        of = {label: [turn for turn in turns if turn.model == model and turn.load.side == label] for label in TUNED}
        for label, mine in of.items():
            rate = median(turn.load.result.requests_per_second for turn in mine)
            share = 100 * sum(turn.throttled for turn in mine) / max(1, sum(turn.periods for turn in mine))
            told += [
                Figure(f"1 CPU, {model}, {label}", rate, "requests/s"),
                Figure(f"1 CPU, {model}, {label}, p99", median(turn.load.result.p99_us for turn in mine) / 1e3, "ms"),
                Figure(f"1 CPU, {model}, {label}, throttled periods", share, "%"),
            ]
        told.append(Figure(f"1 CPU, {model}, default, of the best by hand", percent(of), "%", TARGET))
    failed = sum(turn.load.result.errors for turn in turns)
    return [*told, Figure("quota, failed requests", failed, "", at_most(0))]


def percent(of: dict[str, list[Turn]]) -> float:
    """Of the side that is best over all turns, within each turn, and the median of the turns."""
    rates = {label: [turn.load.result.requests_per_second for turn in mine] for label, mine in of.items()}
    best = max((label for label in rates if label != DEFAULT), key=lambda label: median(rates[label]))
    return 100 * median(one / other for one, other in zip(rates[DEFAULT], rates[best], strict=True))
