"""Does a large answer hold up small ones? Latency of a tiny model while another answers with 110 MB of JSON.

The tiny model is asked by one connection, one request after another. Beside it, nothing; or one client after another
that reads a large answer as it is, or as gzip, or zstd. Neither server nor client is pinned: the server's thread that
codes is to find a core of its own where there is one.
"""

import json
import subprocess
import sys
import time
from itertools import product
from statistics import median
from typing import Any

import numpy as np

from benchmarks.models import EXPAND, MLP
from benchmarks.recipes.expand import WIDTH
from benchmarks.serving import contender
from benchmarks.serving.effort import Effort
from benchmarks.serving.process import observe_quietly
from benchmarks.serving.report import Answer, Figure, at_most
from guepard.core.tensor import TensorSpec
from guepard.protocols.large_json import LargeJson, Rows, rows_of
from guepard.protocols.v1_outputs import large_output

SIDES = (None, "identity", "gzip", "zstd")
NAMES = {None: "alone", "identity": "large answer as it is", "gzip": "large answer, gzip", "zstd": "large answer, zstd"}
MAX_TARGET = at_most(5.0)


def measure(effort: Effort) -> Answer:
    models = [f"{model.name}={model.path()}" for model in (MLP, EXPAND)]
    samples = []
    with contender.guepard(*models) as server:
        ask(server.port, 1.0, "gzip")
        for repeat, side in product(range(effort.repeats), SIDES):
            print(f"large_answer: run {repeat + 1}, {NAMES[side]}", file=sys.stderr, flush=True)
            told, seen = observe_quietly(lambda side=side: ask(server.port, effort.seconds, side), server.pid)  # type: ignore[misc]
            samples.append({**summary(told), **seen.as_dict()})
    return Answer("large_answer", [*figures(samples), *steps()], samples)


def steps() -> list[Figure]:
    spec, array = TensorSpec("y", "FP32", [-1]), np.full((1, WIDTH), EXPAND.sample(1)[0, 0])
    forms = {"answer": rows_of(spec, array, flat=True), "predict answer": large_output(spec, array)}
    return [
        Figure(f"longest step of a large {name} on the loop, its own CPU", longest_step_ms(rows), "ms", MAX_TARGET)
        for name, rows in forms.items()
    ]


def longest_step_ms(rows: Rows) -> float:
    """Of checking and writing the same answer, in CPU time: what strangers on the machine cannot stretch."""
    large = LargeJson([b"[", rows, b"]"])
    longest = 0.0
    for steps in (large.check(), large.text()):
        before = time.thread_time()
        for _ in steps:
            longest, before = max(longest, time.thread_time() - before), time.thread_time()
    return longest * 1e3


def ask(port: int, seconds: float, coding: str | None) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.serving.neighbours", str(port), str(seconds)]
    told = subprocess.run([*command, *([coding] if coding else [])], check=True, capture_output=True)
    result: dict[str, Any] = json.loads(told.stdout)
    return result


def summary(told: dict[str, Any]) -> dict[str, Any]:
    latencies = np.array(told["latencies_ms"])
    p50, p99, p999 = np.percentile(latencies, [50, 99, 99.9])
    return {
        "coding": told["coding"],
        "requests": latencies.size,
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "p999_ms": float(p999),
        "max_ms": float(latencies.max()),
        "large_s": [large["seconds"] for large in told["large"]],
        "large_bytes": [large["bytes"] for large in told["large"]],
    }


def figures(samples: list[dict[str, Any]]) -> list[Figure]:
    told = []
    alone = of(samples, None, "p999_ms")
    for side in SIDES:
        name = f"tiny model, {NAMES[side]}"
        p999 = of(samples, side, "p999_ms")
        told += [
            Figure(f"{name}, p50", of(samples, side, "p50_ms"), "ms"),
            Figure(f"{name}, p99.9", p999, "ms"),
            Figure(f"{name}, max", of(samples, side, "max_ms"), "ms", MAX_TARGET if side else None),
        ]
        if side is not None:
            large = [seconds for sample in samples if sample["coding"] == side for seconds in sample["large_s"]]
            sizes = [size for sample in samples if sample["coding"] == side for size in sample["large_bytes"]]
            told += [
                Figure(f"{name}, p99.9 / alone", p999 / alone, "×"),
                Figure(f"{NAMES[side]}, from request to last byte", median(large), "s"),
                Figure(f"{NAMES[side]}, on the wire", median(sizes) / 1e6, "MB"),
            ]
    return told


def of(samples: list[dict[str, Any]], side: str | None, key: str) -> float:
    values: list[float] = [sample[key] for sample in samples if sample["coding"] == side]
    return median(values)
