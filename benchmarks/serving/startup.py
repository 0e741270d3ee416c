"""How soon is `guepard serve` ready, and what does it weigh when idle?

The smallest model, a fresh process each time.
"""

import sys
import time
from statistics import median

from benchmarks.models import MLP
from benchmarks.serving import contender
from benchmarks.serving.effort import Effort
from benchmarks.serving.process import observe_quietly, rss_bytes
from benchmarks.serving.report import Answer, Figure, at_most

SETTLE_S = 2.0
READY_TARGET = at_most(0.8)
RSS_TARGET = at_most(85)


def measure(effort: Effort) -> Answer:
    model = str(MLP.path())
    samples = []
    for start in range(effort.starts):
        print(f"startup: start {start + 1}", file=sys.stderr, flush=True)
        # The server lives and ends within the observation, where its time counts as that of a child.
        (ready_s, idle_rss_bytes), seen = observe_quietly(lambda: start_once(model))
        samples.append({"ready_s": ready_s, "idle_rss_bytes": idle_rss_bytes, **seen.as_dict()})
    ready_s = median(sample["ready_s"] for sample in samples)
    idle_rss_bytes = median(sample["idle_rss_bytes"] for sample in samples)
    figures = [
        Figure("start to ready", ready_s, "s", READY_TARGET),
        Figure("idle resident memory", idle_rss_bytes / 1e6, "MB", RSS_TARGET),
    ]
    return Answer("startup", figures, samples)


def start_once(model: str) -> tuple[float, int]:
    """Seconds from the start of the process to ready, and bytes resident when it has settled."""
    with contender.guepard(model) as server:
        time.sleep(SETTLE_S)
        return server.started_in_s, rss_bytes(server.pid)
