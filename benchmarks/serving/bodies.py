"""What does a byte of a body cost, from 1 KB to 64 MB, and how often is it copied between socket and socket?

The identity model takes and gives one FP32 tensor as bytes, over one connection. Beside it stands the bare echo of
bodies (`body_echo_server.py`), which copies nothing in user space and keeps its pages: what Guepard takes more than
that, counted in copies of the same size at the same moment, bounds the number of its copies from above: clearing new
pages, which writes as much as a copy, is in it. The most that is resident while one body of 64 MB is under way tells
how many of them exist at once. Servers are pinned to the first core, the client and the copies to the second.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from re import MULTILINE, search
from statistics import median
from typing import Any

import numpy as np

from benchmarks.serving import launch
from benchmarks.serving.contender import Contender
from benchmarks.serving.effort import Effort
from benchmarks.serving.load import run_load
from benchmarks.serving.payload import HEADER_LENGTH, Payload
from benchmarks.serving.pinning import pinned
from benchmarks.serving.process import rss_bytes
from benchmarks.serving.report import Answer, Figure, at_most
from benchmarks.serving.sample import LoadSample, sample_load

SIZES = {"1 KB": 1 << 10, "32 KB": 1 << 15, "1 MB": 1 << 20, "8 MB": 1 << 23, "64 MB": 1 << 26}
LINEAR_TARGET, COPIES_TARGET = at_most(1.3), at_most(2.0)
MODEL = {"name": "ident", "backend": "identity", "inputs": [{"name": "x", "datatype": "FP32", "dims": [-1]}]}


@dataclass(frozen=True, slots=True)
class Turn:
    """Both servers and a plain copy, one after the other, at one size."""

    size: int
    guepard: LoadSample
    echo: LoadSample
    copy_us: float

    @property
    def copies(self) -> float:
        return (self.guepard.cpu_us - self.echo.cpu_us) / self.copy_us

    def samples(self) -> list[dict[str, Any]]:
        told = {"body_bytes": self.size, "copy_us": self.copy_us}
        return [self.guepard.as_dict() | told, self.echo.as_dict() | told]


def payload(size: int) -> Payload:
    """One row of so many bytes, and an answer in bytes."""
    tensor = f'"name":"x","datatype":"FP32","shape":[1,{size // 4}],"parameters":{{"binary_data_size":{size}}}'
    head = f'{{"inputs":[{{{tensor}}}],"parameters":{{"binary_data_output":true}}}}'.encode()
    headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(len(head))}
    return Payload("/v2/models/ident/infer", head + np.arange(size // 4, dtype=np.float32).tobytes(), headers)


def measure(effort: Effort) -> Answer:
    server_prefix, client_prefix = pinned()
    with (
        launch.configured([MODEL], prefix=server_prefix) as guepard,
        launch.module("body_echo_server", prefix=server_prefix) as echo,
    ):
        idle = rss_bytes(guepard.pid)
        turns = []
        for repeat in range(effort.turns):
            for label, size in SIZES.items():
                print(f"bodies: {label}, run {repeat + 1}", file=sys.stderr, flush=True)
                body = payload(size)
                ours = sample_load("guepard", guepard, body, 1, effort.turn_seconds, client_prefix)
                bare = sample_load("echo", echo, body, 1, effort.turn_seconds, client_prefix)
                turns.append(Turn(size, ours, bare, copy_us(size)))
        largest = payload(SIZES["64 MB"])
        peak = peak_rss(guepard, lambda: run_load(guepard.port, largest, 1, 1, client_prefix)) - idle
    return Answer("bodies", figures(turns, peak), [sample for turn in turns for sample in turn.samples()])


def copy_us(size: int) -> float:
    """CPU time of one copy of so many bytes, between pages that are there already."""
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    repeats = max(3, (1 << 28) // max(size, 1 << 18))
    started = time.process_time()
    for _ in range(repeats):
        np.copyto(target, source)
    return (time.process_time() - started) / repeats * 1e6


def peak_rss(server: Contender, action: Callable[[], object]) -> int:
    """The most that was resident while `action` ran. Source: proc(5), clear_refs."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    action()
    found = search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{server.pid}/status").read_text(), MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def figures(turns: list[Turn], peak: int) -> list[Figure]:
    told = []
    for label, size in SIZES.items():
        mine = [turn for turn in turns if turn.size == size]
        told += [
            Figure(f"body of {label}, CPU", median(turn.guepard.cpu_us for turn in mine), "µs/request"),
            Figure(f"body of {label}, bare echo, CPU", median(turn.echo.cpu_us for turn in mine), "µs/request"),
        ]
        if size >= SIZES["1 MB"]:
            told += [
                Figure(f"body of {label}, per byte", median(ns_per_byte(turn, turns) for turn in mine), "ns"),
                Figure(f"body of {label}, one copy", median(turn.copy_us for turn in mine), "µs"),
                Figure(
                    f"body of {label}, more than the bare echo",
                    median(turn.copies for turn in mine),
                    "copies",
                    COPIES_TARGET if size == SIZES["64 MB"] else None,
                ),
            ]
    failed = sum(side.result.errors for turn in turns for side in (turn.guepard, turn.echo))
    return [
        *told,
        Figure("a byte at 64 MB / at 1 MB", growth(turns), "×", LINEAR_TARGET),
        Figure("64 MB under way, resident beyond idle", peak / SIZES["64 MB"], "bodies", at_most(3.0)),
        Figure("bodies, failed requests", failed, "", at_most(0)),
    ]


def fixed_us(turns: list[Turn]) -> float:
    """What a request costs whatever its size: that of 1 KB."""
    return median(turn.guepard.cpu_us for turn in turns if turn.size == SIZES["1 KB"])


def ns_per_byte(turn: Turn, turns: list[Turn]) -> float:
    return (turn.guepard.cpu_us - fixed_us(turns)) * 1e3 / turn.size


def growth(turns: list[Turn]) -> float:
    """Within a turn each, and the median of the turns."""
    small, large = ([turn for turn in turns if turn.size == SIZES[label]] for label in ("1 MB", "64 MB"))
    return median(ns_per_byte(one, turns) / ns_per_byte(other, turns) for one, other in zip(large, small, strict=True))
