"""Does a model cost its neighbours anything? 1, 50 and 200 copies of the MLP, each a model and a file of its own.

How soon the server is ready, what it weighs when idle, and the CPU per request of one of the models while the others
do nothing. All three servers are up and take turns; each is pinned to the first core, wrk to the second.
"""

import shutil
import sys
import time
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.models import MLP
from benchmarks.serving import contender
from benchmarks.serving.effort import Effort
from benchmarks.serving.load import run_load
from benchmarks.serving.payload import Payload, json_payload
from benchmarks.serving.pinning import pinned
from benchmarks.serving.process import rss_bytes
from benchmarks.serving.report import Answer, Figure, at_most
from benchmarks.serving.sample import LoadSample, sample_load

COUNTS = (1, 50, 200)
CONNECTIONS = (8, 64)
SETTLE_S = 2.0
REQUEST_TARGET, RSS_TARGET = at_most(1.1), at_most(1.0)


def measure(effort: Effort) -> Answer:
    server_prefix, client_prefix = pinned()
    payload = payload_of(name(0))
    ready: dict[int, float] = {}
    resident: dict[int, int] = {}
    with TemporaryDirectory(prefix="bench-models-") as folder, ExitStack() as stack:
        servers = {}
        for count in COUNTS:
            print(f"many_models: starting with {count}", file=sys.stderr, flush=True)
            models = copies(Path(folder), count)
            servers[count] = server = stack.enter_context(contender.guepard(*models, prefix=server_prefix))
            time.sleep(SETTLE_S)
            ready[count], resident[count] = server.started_in_s, rss_bytes(server.pid)
        for server in servers.values():
            run_load(server.port, payload, CONNECTIONS[0], 1, client_prefix)
        samples: list[tuple[int, LoadSample]] = []
        for repeat, connections, count in product(range(effort.turns), CONNECTIONS, COUNTS):
            print(f"many_models: {connections} connections, run {repeat + 1}, {count}", file=sys.stderr, flush=True)
            seen = sample_load(
                f"{count} models", servers[count], payload, connections, effort.turn_seconds, client_prefix
            )
            samples.append((count, seen))
    return Answer("many_models", figures(samples, ready, resident), [sample.as_dict() for _, sample in samples])


def name(index: int) -> str:
    return f"mlp{index}"


def copies(folder: Path, count: int) -> list[str]:
    """MODEL arguments."""
    found = []
    for index in range(count):
        path = folder / f"{name(index)}.onnx"
        if not path.exists():
            shutil.copyfile(MLP.path(), path)
        found.append(f"{name(index)}={path}")
    return found


def payload_of(model: str) -> Payload:
    plain = json_payload(MLP)
    return Payload(f"/v2/models/{model}/infer", plain.body, plain.headers)


def figures(samples: list[tuple[int, LoadSample]], ready: dict[int, float], resident: dict[int, int]) -> list[Figure]:
    least, middle, most = COUNTS
    told: list[Figure] = []
    for count in COUNTS:
        told += [
            Figure(f"{count} models, start to ready", ready[count], "s"),
            Figure(f"{count} models, idle resident memory", resident[count] / 1e6, "MB"),
        ]
    for connections in CONNECTIONS:
        of = {
            count: [one for other, one in samples if other == count and one.result.connections == connections]
            for count in COUNTS
        }
        at = f"{connections} conn."
        for count, mine in of.items():
            told.append(Figure(f"{count} models, {at}", median(one.cpu_us for one in mine), "µs CPU/request"))
        ratios = [one.cpu_us / other.cpu_us for one, other in zip(of[most], of[least], strict=True)]
        told.append(Figure(f"{most} models / {least}, {at}, CPU per request", median(ratios), "×", REQUEST_TARGET))
    told += [
        Figure(f"resident per model, from {fewer} to {more}", growth(resident, fewer, more) / 1e6, "MB", RSS_TARGET)
        for fewer, more in ((least, middle), (middle, most))
    ]
    told.append(Figure(f"ready later per model, up to {most}", growth(ready, least, most) * 1e3, "ms"))
    failed = sum(one.result.errors for _, one in samples)
    return [*told, Figure("many models, failed requests", failed, "", at_most(0))]


def growth(values: dict[int, Any], fewer: int, more: int) -> float:
    """Per model."""
    return float(values[more] - values[fewer]) / (more - fewer)
