"""How soon is `guepard serve` ready, and what does it weigh when idle?

The smallest model, a fresh process each time.
"""

import sys
import time
from functools import partial
from itertools import product
from statistics import median

from benchmarks.models import MLP
from benchmarks.serving import contender
from benchmarks.serving.effort import Effort
from benchmarks.serving.process import observe_quietly, rss_bytes
from benchmarks.serving.report import Answer, Figure, at_most

SETTLE_S = 2.0
TARGETS = {"gRPC off": (at_most(0.8), at_most(85)), "gRPC on": (at_most(1.0), at_most(105))}
"""Seconds to ready, and megabytes."""


def measure(effort: Effort) -> Answer:
    model = str(MLP.path())
    samples = []
    for start, side in product(range(effort.starts), TARGETS):
        print(f"startup: start {start + 1}, {side}", file=sys.stderr, flush=True)
        # The server lives and ends within the observation, where its time counts as that of a child.
        (ready_s, idle_rss_bytes), seen = observe_quietly(partial(start_once, model, side == "gRPC on"))
        samples.append({"side": side, "ready_s": ready_s, "idle_rss_bytes": idle_rss_bytes, **seen.as_dict()})
    figures = []
    for side, (ready_target, rss_target) in TARGETS.items():
        mine = [sample for sample in samples if sample["side"] == side]
        figures += [
            Figure(f"start to ready, {side}", median(sample["ready_s"] for sample in mine), "s", ready_target),
            Figure(
                f"idle resident memory, {side}",
                median(sample["idle_rss_bytes"] for sample in mine) / 1e6,
                "MB",
                rss_target,
            ),
        ]
    return Answer("startup", figures, samples)


def start_once(model: str, grpc: bool) -> tuple[float, int]:
    """Seconds from the start of the process to ready, and bytes resident when it has settled."""
    with contender.guepard(model, grpc=grpc) as server:
        time.sleep(SETTLE_S)
        return server.started_in_s, rss_bytes(server.pid)
