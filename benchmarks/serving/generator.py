"""How many requests can one process of the load generator send, how punctually, and what does wrk take for the same?

Against the null server, which answers as fast as plain Python can, on a core of its own; the generator is pinned to
the other. Closed loop: both sides send the same request on the same number of connections and take turns. Rates are
partly the null server's, so CPU per request is what compares. Open loop: Poisson arrivals at half of the rate that is
wanted, and how late requests leave.
"""

import os
import sys
from functools import partial
from statistics import median
from typing import Any

from benchmarks.serving.effort import Effort
from benchmarks.serving.load import run_load
from benchmarks.serving.payload import Payload as WrkPayload
from benchmarks.serving.pinning import pinned
from benchmarks.serving.process import children_seconds, observe_quietly
from benchmarks.serving.report import Answer, Figure, at_least, at_most
from guepard.measure.load.generator import LoadGenerator
from guepard.measure.load.null_server import NullServer
from guepard.measure.load.plan import Arrivals, Endpoint, LoadPlan, Payload
from guepard.measure.observation import Observation

CONNECTIONS = (1, 8, 64)
WANTED_RATE = 40_000
RATE_TARGET = at_least(WANTED_RATE)
LAG_TARGET = at_most(2.0)
BODY = b"x" * 100
REQUEST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n" + BODY
_NS = 1_000_000_000


def measure(effort: Effort) -> Answer:
    samples: list[dict[str, Any]] = []
    with NullServer() as server:
        pin(server.pid, 0)
        for connections in CONNECTIONS:
            for repeat in range(effort.repeats):
                print(f"generator: {connections} connections, run {repeat + 1}", file=sys.stderr, flush=True)
                for side, action in (("guepard", closed_loop), ("wrk", by_wrk)):
                    told, seen = observe_quietly(partial(action, server.port, connections, effort.seconds), server.pid)
                    samples.append({"side": side, "connections": connections, **told, **seen.as_dict()})
        for repeat in range(effort.repeats):
            print(f"generator: open loop, run {repeat + 1}", file=sys.stderr, flush=True)
            told, seen = observe_quietly(partial(open_loop, server.port, effort.seconds), server.pid)
            samples.append({"side": "open loop", "connections": 0, **told, **seen.as_dict()})
    return Answer("generator", figures(samples), samples)


def closed_loop(port: int, connections: int, seconds: int) -> dict[str, float]:
    return by_guepard(plan(port, seconds, concurrency=connections))


def open_loop(port: int, seconds: int) -> dict[str, float]:
    return by_guepard(plan(port, seconds, arrivals=Arrivals(kind="poisson", rate=WANTED_RATE / 2)))


def plan(port: int, seconds: int, **load: Any) -> LoadPlan:
    endpoint = Endpoint(protocol="http", host="127.0.0.1", port=port)
    return LoadPlan(endpoint=endpoint, payloads=(Payload(data=REQUEST),), duration_ns=seconds * _NS, **load)


def by_guepard(wanted: LoadPlan) -> dict[str, float]:
    with LoadGenerator(1) as generator:
        pin(generator.pids[0], 1)
        seen = Observation()
        (usage,), _ = generator.run(wanted, seen)
    seconds = wanted.duration_ns / _NS
    lag = seen.tally.window(0, seconds).send_lag
    return {
        "rate": seen.count / seconds,
        "cpu_us": usage.cpu_ns / seen.count / 1_000,
        "lag_p50_ms": lag.quantile(0.5) / 1e6,
        "lag_p99_ms": lag.quantile(0.99) / 1e6,
    }


def by_wrk(port: int, connections: int, seconds: int) -> dict[str, float]:
    before = children_seconds()
    result = run_load(port, WrkPayload("/", BODY, {}), connections, seconds, pinned()[1])
    return {"rate": result.requests_per_second, "cpu_us": (children_seconds() - before) / result.requests * 1e6}


def pin(pid: int, place: int) -> None:
    """To the first or the last core."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(pid, {cores[-1 if place else 0]})


def figures(samples: list[dict[str, Any]]) -> list[Figure]:
    found = []
    for connections in CONNECTIONS:
        of = {
            side: [each for each in samples if each["side"] == side and each["connections"] == connections]
            for side in ("guepard", "wrk")
        }
        ratios = [our["cpu_us"] / their["cpu_us"] for our, their in zip(of["guepard"], of["wrk"], strict=True)]
        name = f"load generator, {connections} connections"
        target = RATE_TARGET if connections == CONNECTIONS[-1] else None
        found += [
            Figure(f"{name}: requests per second", median(each["rate"] for each in of["guepard"]), "", target),
            Figure(f"{name}: CPU per request", median(each["cpu_us"] for each in of["guepard"]), "µs"),
            Figure(f"{name}: CPU per request, of wrk's", median(ratios), "×"),
        ]
    late = [each["lag_p99_ms"] for each in samples if each["side"] == "open loop"]
    found.append(Figure(f"load generator, {WANTED_RATE // 2:,} a second: send lag p99", median(late), "ms", LAG_TARGET))
    return found
