"""What do metrics and statistics cost a request? The server as it is, against itself with its recorders taken out.

The MLP, JSON. The difference is a few hundred nanoseconds of twenty microseconds and more, and where a process happens
to lie in memory makes it faster or slower by as much: so both sides are started anew for every turn, their loads
alternate within it, and the median of the turns is told. The stamps that responses carry in
Server-Timing are taken on both sides. Each server is pinned to the first core, wrk to the second.
"""

import sys
from statistics import median

from benchmarks.models import MLP
from benchmarks.serving import launch
from benchmarks.serving.effort import Effort
from benchmarks.serving.load import run_load
from benchmarks.serving.payload import json_payload
from benchmarks.serving.pinning import pinned
from benchmarks.serving.report import Answer, Figure, at_most
from benchmarks.serving.sample import LoadSample, sample_load

CONNECTIONS = (1, 64)
LOADS = 2
"""Of each side within a turn."""
SHARE, LEAST_US = 0.02, 1.0
WARM_UP_SECONDS = 1


def measure(effort: Effort) -> Answer:
    server_prefix, client_prefix = pinned()
    payload, model = json_payload(MLP), f"{MLP.name}={MLP.path()}"
    turns: list[dict[str, list[LoadSample]]] = []
    for turn in range(effort.turns):
        with (
            launch.module("unmetered_server", model, "--metered", prefix=server_prefix) as metered,
            launch.module("unmetered_server", model, prefix=server_prefix) as bare,
        ):
            sides = {"as it is": metered, "no recording": bare}
            for server in sides.values():
                run_load(server.port, payload, CONNECTIONS[-1], WARM_UP_SECONDS, client_prefix)
            seen: dict[str, list[LoadSample]] = {side: [] for side in sides}
            for connections in CONNECTIONS:
                for load in range(LOADS):
                    print(f"metrics_cost: {connections} conn., turn {turn + 1}.{load + 1}", file=sys.stderr, flush=True)
                    for side, server in sides.items():
                        seen[side].append(
                            sample_load(side, server, payload, connections, effort.turn_seconds, client_prefix)
                        )
            turns.append(seen)
    samples = [one.as_dict() for turn in turns for side in turn.values() for one in side]
    return Answer("metrics_cost", figures(turns), samples)


def figures(turns: list[dict[str, list[LoadSample]]]) -> list[Figure]:
    told = []
    for connections in CONNECTIONS:
        metered, bare = ([cost(turn[side], connections) for turn in turns] for side in ("as it is", "no recording"))
        more = median(one - other for one, other in zip(metered, bare, strict=True))
        allowed = max(LEAST_US, SHARE * median(bare))
        at = f"MLP, {connections} conn."
        told += [
            Figure(f"{at}, as it is", median(metered), "µs CPU/request"),
            Figure(f"{at}, no recording", median(bare), "µs CPU/request"),
            Figure(f"{at}, recording", more, "µs CPU/request", at_most(round(allowed, 2))),
            Figure(f"{at}, recording", 100 * more / median(bare), "%"),
        ]
    failed = sum(one.result.errors for turn in turns for side in turn.values() for one in side)
    return [*told, Figure("metrics cost, failed requests", failed, "", at_most(0))]


def cost(samples: list[LoadSample], connections: int) -> float:
    """Median over the loads of one turn."""
    return median(one.cpu_us for one in samples if one.result.connections == connections)
