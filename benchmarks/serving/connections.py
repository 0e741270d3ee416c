"""Does a request cost the same however many connections there are? The MLP, 1 to 256 of them, JSON and binary.

All counts take turns on one server. With more connections more requests come in one turn of its loop, and leave in one
batch, so that a request gets cheaper at first; from 64 on, which is the largest batch, it should stay as it is. What a
connection weighs is what the server's resident memory grows by while 1,024 of them are open and have been answered.
"""

import socket
import sys
from contextlib import ExitStack
from itertools import pairwise, product
from statistics import median

from benchmarks.models import MLP
from benchmarks.serving import contender
from benchmarks.serving.contender import Contender
from benchmarks.serving.effort import Effort
from benchmarks.serving.load import run_load
from benchmarks.serving.neighbours import message
from benchmarks.serving.payload import binary_payload, json_payload
from benchmarks.serving.pinning import pinned
from benchmarks.serving.process import rss_bytes
from benchmarks.serving.raw_engine import check_answer
from benchmarks.serving.report import Answer, Figure, at_most
from benchmarks.serving.sample import LoadSample, sample_load

CONNECTIONS = (1, 4, 16, 64, 256)
FULL_BATCH, MOST = 64, 256
GROWTH_TARGET, STEP_TARGET = at_most(1.15), at_most(1.05)
IDLE_CONNECTIONS = 1_024
WARM_UP_CONNECTIONS, WARM_UP_SECONDS = 64, 1


def measure(effort: Effort) -> Answer:
    server_prefix, client_prefix = pinned()
    payloads = {"JSON": json_payload(MLP), "binary": binary_payload(MLP)}
    with contender.guepard(f"{MLP.name}={MLP.path()}", prefix=server_prefix) as server:
        for payload in payloads.values():
            check_answer(MLP, server.port, payload)
            run_load(server.port, payload, WARM_UP_CONNECTIONS, WARM_UP_SECONDS, client_prefix)
        samples = []
        for repeat, side, connections in product(range(effort.turns), payloads, CONNECTIONS):
            print(f"connections: {connections}, run {repeat + 1}, {side}", file=sys.stderr, flush=True)
            samples.append(sample_load(side, server, payloads[side], connections, effort.turn_seconds, client_prefix))
        weight = bytes_per_connection(server)
    return Answer("connections", figures(samples, weight), [sample.as_dict() for sample in samples])


def bytes_per_connection(server: Contender) -> float:
    asked = message(json_payload(MLP))
    before = rss_bytes(server.pid)
    with ExitStack() as stack:
        for _ in range(IDLE_CONNECTIONS):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            connection.sendall(asked)
            answer = connection.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 200"), answer
        return (rss_bytes(server.pid) - before) / IDLE_CONNECTIONS


def figures(samples: list[LoadSample], weight: float) -> list[Figure]:
    told = []
    for side in ("JSON", "binary"):
        of = {
            count: [one for one in samples if one.side == side and one.result.connections == count]
            for count in CONNECTIONS
        }
        for count, mine in of.items():
            told += [
                Figure(f"{side}, {count} connections", median(one.cpu_us for one in mine), "µs CPU/request"),
                Figure(f"{side}, {count} connections, rate", rate(mine), "requests/s"),
            ]
        few = [count for count in CONNECTIONS if count <= FULL_BATCH]
        steps = [ratio(of[more], of[fewer]) for fewer, more in pairwise(few)]
        told += [
            Figure(f"{side}, {MOST} connections / {FULL_BATCH}", ratio(of[MOST], of[FULL_BATCH]), "×", GROWTH_TARGET),
            Figure(f"{side}, largest step up to {FULL_BATCH}", max(steps), "×", STEP_TARGET),
        ]
    failed = sum(one.result.errors for one in samples)
    return [
        *told,
        Figure("an open connection, resident", weight / 1e3, "kB"),
        Figure("connections, failed requests", failed, "", at_most(0)),
    ]


def rate(samples: list[LoadSample]) -> float:
    return median(one.result.requests_per_second for one in samples)


def ratio(side: list[LoadSample], reference: list[LoadSample]) -> float:
    """The median over the turns, each against its neighbour in time."""
    return median(one.cpu_us / other.cpu_us for one, other in zip(side, reference, strict=True))
