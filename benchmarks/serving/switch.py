"""Is a heavy model quick when it is idle and does it still get as much done when it is busy? FP32 MiniLM, 128 tokens.

Two servers take turns: one may run a lone request on all CPUs, the other may not (`instance_group.wide: never`). At one
connection p50 is compared, at eight the rate; the medians of the rounds' ratios are told. Nothing is pinned.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.models import MINILM
from benchmarks.serving import contender, raw_engine
from benchmarks.serving.effort import Effort
from benchmarks.serving.load import run_load
from benchmarks.serving.payload import binary_payload
from benchmarks.serving.report import Answer, Figure, at_least, at_most
from benchmarks.serving.sample import LoadSample, sample_load

SIDES = {"wide": "auto", "narrow": "never"}
IDLE, BUSY = 1, 8
"""Connections."""
WARM_UP_SECONDS = 2


def measure(effort: Effort) -> Answer:
    payload = binary_payload(MINILM)
    rounds: list[dict[tuple[str, int], LoadSample]] = []
    with (
        TemporaryDirectory(prefix="bench-switch-") as folder,
        server(folder, "wide") as wide,
        server(folder, "narrow") as narrow,
    ):
        servers = {"wide": wide, "narrow": narrow}
        for side in servers.values():
            raw_engine.check_answer(MINILM, side.port, payload)
            run_load(side.port, payload, BUSY, WARM_UP_SECONDS)
        for turn in range(effort.rounds):
            print(f"switch: round {turn + 1}", file=sys.stderr, flush=True)
            rounds.append(
                {
                    (side, connections): sample_load(
                        side, servers[side], payload, connections, effort.round_seconds, steady=True
                    )
                    for connections in (IDLE, BUSY)
                    for side in (servers if turn % 2 else reversed(servers))
                }
            )
    return Answer("switch", figures(rounds), [sample.as_dict() for each in rounds for sample in each.values()])


@contextmanager
def server(folder: str, side: str) -> Iterator[contender.Contender]:
    config = Path(folder, f"{side}.yaml")
    model = f"{{name: {MINILM.name}, path: {MINILM.path()}, instance_group: {{wide: {SIDES[side]}}}}}"
    config.write_text(f"models: [{model}]\n")
    with contender.guepard("--config", str(config), "--cache-dir", str(Path(folder, "cache"))) as running:
        yield running


def figures(rounds: list[dict[tuple[str, int], LoadSample]]) -> list[Figure]:
    told = []
    for side in SIDES:
        p50_us = median(each[side, IDLE].result.p50_us for each in rounds)
        rate = median(each[side, BUSY].result.requests_per_second for each in rounds)
        told += [
            Figure(f"MiniLM, {side}, {IDLE} conn., p50", p50_us / 1e3, "ms"),
            Figure(f"MiniLM, {side}, {BUSY} conn., rate", rate, "inferences/s"),
        ]
    latency = median(each["wide", IDLE].result.p50_us / each["narrow", IDLE].result.p50_us for each in rounds)
    rate = median(
        each["wide", BUSY].result.requests_per_second / each["narrow", BUSY].result.requests_per_second
        for each in rounds
    )
    failed = sum(sample.result.errors for each in rounds for sample in each.values())
    return [
        *told,
        Figure(f"wide / narrow, {IDLE} conn., p50", latency, "x", at_most(0.8)),
        Figure(f"wide / narrow, {BUSY} conn., rate", 100 * rate, "%", at_least(97)),
        Figure("switch, failed requests", failed, "", at_most(0)),
    ]
