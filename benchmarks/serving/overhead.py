"""What does the server itself cost? CPU per request on a model that computes next to nothing, against the bare echo.

Echo and Guepard both stay up for the whole run and take turns under the same client, so that a slow minute of the
machine meets both. Each server is pinned to the first core and wrk to the second: README.md says why.
"""

import sys
from itertools import product
from statistics import median

from benchmarks.models import MLP
from benchmarks.serving import contender
from benchmarks.serving.effort import Effort
from benchmarks.serving.load import run_load
from benchmarks.serving.payload import binary_payload, json_payload, predict_payload
from benchmarks.serving.pinning import pinned
from benchmarks.serving.raw_engine import check_answer
from benchmarks.serving.report import Answer, Figure, at_most
from benchmarks.serving.sample import LoadSample, sample_load

CONNECTIONS = (1, 8, 64)
JSON_TARGETS = {8: at_most(4.7), 64: at_most(3.2)}
BINARY_TARGETS = {8: at_most(1.0), 64: at_most(1.0)}
WARM_UP_CONNECTIONS, WARM_UP_SECONDS = 8, 1


def measure(effort: Effort) -> Answer:
    server_prefix, client_prefix = pinned()
    model = f"{MLP.name}={MLP.path()}"
    with contender.echo(server_prefix) as echo, contender.guepard(model, prefix=server_prefix) as guepard:
        sides = {
            "echo": (echo, json_payload(MLP)),
            "json": (guepard, json_payload(MLP)),
            "binary": (guepard, binary_payload(MLP)),
            "predict": (guepard, predict_payload(MLP)),
        }
        for side, (server, payload) in sides.items():
            if side != "echo":
                check_answer(MLP, server.port, payload)
            run_load(server.port, payload, WARM_UP_CONNECTIONS, WARM_UP_SECONDS, client_prefix)
        samples = []
        for connections, repeat, side in product(CONNECTIONS, range(effort.repeats), sides):
            print(f"overhead: {connections} connections, run {repeat + 1}, {side}", file=sys.stderr, flush=True)
            samples.append(sample_load(side, *sides[side], connections, effort.seconds, client_prefix))
    return Answer("overhead", figures(samples), [sample.as_dict() for sample in samples])


def figures(samples: list[LoadSample]) -> list[Figure]:
    told = []
    for connections in CONNECTIONS:
        echo, json, binary, predict = (
            [one for one in samples if one.side == side and one.result.connections == connections]
            for side in ("echo", "json", "binary", "predict")
        )
        at = f"MLP, {connections} conn."
        told += [
            Figure(f"{at}, echo", median(one.cpu_us for one in echo), "µs CPU/request"),
            Figure(f"{at}, V2 JSON", median(one.cpu_us for one in json), "µs CPU/request"),
            Figure(f"{at}, V2 binary", median(one.cpu_us for one in binary), "µs CPU/request"),
            Figure(f"{at}, V2 JSON rate", median(one.result.requests_per_second for one in json), "requests/s"),
            Figure(f"{at}, V2 JSON p99", median(one.result.p99_us for one in json) / 1e3, "ms"),
            Figure(f"{at}, JSON / echo", cpu_ratio(json, echo), "×", JSON_TARGETS.get(connections)),
            Figure(f"{at}, binary / JSON", cpu_ratio(binary, json), "×", BINARY_TARGETS.get(connections)),
            Figure(f"{at}, V1 predict / V2 JSON", cpu_ratio(predict, json), "×"),
        ]
    failed = sum(one.result.errors for one in samples)
    return [*told, Figure("MLP, failed requests", failed, "", at_most(0))]


def cpu_ratio(side: list[LoadSample], reference: list[LoadSample]) -> float:
    """The median over the repeats, each against its neighbour in time."""
    return median(one.cpu_us / other.cpu_us for one, other in zip(side, reference, strict=True))
