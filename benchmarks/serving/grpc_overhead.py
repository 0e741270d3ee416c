"""What does a gRPC call cost? CPU per call on a model that computes next to nothing, against a bare grpc.aio echo.

Both servers stay up for the whole run and take turns under the same client, each on the first core, the client on the
second. The echo gives the very bytes that the model's answer has, so that the library's own work is the same.
"""

import re
import sys
from itertools import product
from statistics import median
from urllib.request import urlopen

from benchmarks.models import MLP
from benchmarks.serving import contender
from benchmarks.serving.contender import Contender
from benchmarks.serving.effort import Effort
from benchmarks.serving.grpc_load import run_grpc_load
from benchmarks.serving.grpc_payload import PATH, check_answer, request_message
from benchmarks.serving.overhead import cpu_ratio
from benchmarks.serving.pinning import pinned
from benchmarks.serving.process import observe_quietly
from benchmarks.serving.report import Answer, Figure, at_most
from benchmarks.serving.sample import LoadSample

CONNECTIONS = (1, 8, 64)
TARGETS = {8: at_most(1.8), 64: at_most(1.8)}
WARM_UP_CONNECTIONS, WARM_UP_SECONDS = 8, 1


def measure(effort: Effort) -> Answer:
    server_prefix, client_prefix = pinned()
    message = request_message(MLP)
    model = f"{MLP.name}={MLP.path()}"
    with (
        contender.grpc_echo(server_prefix) as echo,
        contender.guepard(model, prefix=server_prefix, grpc=True) as guepard,
    ):
        sides = {"echo": echo, "guepard": guepard}
        for server in sides.values():
            check_answer(MLP, server.grpc_port)
            run_grpc_load(server.grpc_port, message, WARM_UP_CONNECTIONS, WARM_UP_SECONDS, client_prefix)
        samples = []
        for connections, repeat, side in product(CONNECTIONS, range(effort.repeats), sides):
            print(f"grpc: {connections} connections, run {repeat + 1}, {side}", file=sys.stderr, flush=True)
            samples.append(_sample(side, sides[side], message, connections, effort.seconds, client_prefix))
        failed = _failed_calls(guepard)
    return Answer("grpc", [*figures(samples), failed], [sample.as_dict() for sample in samples])


def _sample(
    side: str, server: Contender, message: bytes, connections: int, seconds: int, prefix: tuple[str, ...]
) -> LoadSample:
    result, seen = observe_quietly(
        lambda: run_grpc_load(server.grpc_port, message, connections, seconds, prefix), server.pid
    )
    return LoadSample(side, result, seen)


def figures(samples: list[LoadSample]) -> list[Figure]:
    told = []
    for connections in CONNECTIONS:
        echo, guepard = (
            [one for one in samples if one.side == side and one.result.connections == connections]
            for side in ("echo", "guepard")
        )
        at = f"MLP over gRPC, {connections} conn."
        told += [
            Figure(f"{at}, grpc.aio echo", median(one.cpu_us for one in echo), "µs CPU/call"),
            Figure(f"{at}, guepard", median(one.cpu_us for one in guepard), "µs CPU/call"),
            Figure(f"{at}, rate", median(one.result.requests_per_second for one in guepard), "calls/s"),
            Figure(f"{at}, guepard / echo", cpu_ratio(guepard, echo), "×", TARGETS.get(connections)),
        ]
    return told


def _failed_calls(server: Contender) -> Figure:
    """By the server's own count: the load client sees HTTP/2 only. Calls that a load's end cut off do not count."""
    with urlopen(f"http://127.0.0.1:{server.port}/v2/models/{MLP.name}/stats") as answer:
        text = answer.read().decode()
    failures = re.search(r'"fail":\{"count":(\d+)', text)
    assert failures is not None, f"{PATH}: {text[:300]}"
    return Figure("MLP over gRPC, failed calls", int(failures[1]), "")
