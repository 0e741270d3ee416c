"""How soon is `guepard serve` ready, and what does it weigh when idle?

The smallest model, a fresh process each time.
"""

import sys
import time
from statistics import median

from benchmarks.models import MLP
from benchmarks.serving import contender
from benchmarks.serving.effort import Effort
from benchmarks.serving.process import observe, rss_bytes, wait_quiet
from benchmarks.serving.report import Answer, Figure, at_most

SETTLE_S = 2.0
READY_TARGET = at_most(0.8)
RSS_TARGET = at_most(85)


def measure(effort: Effort) -> Answer:
    samples = []
    for start in range(effort.starts):
        print(f"startup: start {start + 1}", file=sys.stderr, flush=True)
        wait_quiet()
        with contender.guepard(str(MLP.path())) as server:
            _, seen = observe(lambda: time.sleep(SETTLE_S), server.pid)
            rss = rss_bytes(server.pid)
        samples.append({"ready_s": server.started_in_s, "idle_rss_bytes": rss, "is_quiet": seen.is_quiet})
    ready = median(sample["ready_s"] for sample in samples)
    idle = median(sample["idle_rss_bytes"] for sample in samples)
    return Answer(
        "startup",
        [
            Figure("start to ready", ready, "s", READY_TARGET),
            Figure("idle resident memory", idle / 1e6, "MB", RSS_TARGET),
        ],
        samples,
    )
